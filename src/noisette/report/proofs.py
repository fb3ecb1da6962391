"""What each theorem says, in one line for a reader who is no expert.

The full statements, with conditions and sources, stand in docs/theory/theorems.md.
"""

MEANINGS: dict[str, str] = {
    "ADJACENCY": "How far one person's record can move a sum of bounded contributions.",
    "ROW-LOCAL": "Encoding each row by itself, with public facts only, costs no privacy.",
    "QUANTILE": "How far one person can move the rank of a value, so that a quantile can be chosen "
    "by noisy scores.",
    "QUANTILE-TREE": "Many quantiles cost one choice per level of halving, because everybody is in "
    "one part of each level.",
    "HISTOGRAM": "How far one person can move the counts of several columns.",
    "CLASS-WEIGHT": "A weight that depends on a row's own label makes no contribution larger.",
    "SCORE-TABLE": "Every test person falls into one cell of a public table; all scores follow "
    "from its noisy counts.",
    "TEST-SHARE": "Training and test people are different people, so the worse of the two costs "
    "counts, not their sum.",
    "CATEGORY-THRESHOLD": "A category is shown only if its noisy count is high enough; one held by "
    "a single person shows with a tiny, stated probability.",
    "PLAN-BEFORE-LOOK": "All steps were paid for before the first look; later ones depend on "
    "earlier results only in ways that do not change their price.",
    "CLIP": "Cutting every contribution to a public length bounds what one person can change.",
    "GAUSS-EXACT": "The exact privacy of Gaussian noise, for every epsilon and delta.",
    "LAPLACE-L1": "Laplace noise on every entry of a vector of counts.",
    "LAPLACE-1D": "The exact privacy of Laplace noise on one number.",
    "SPHERICAL-LAPLACE": "The exact privacy of noise whose density falls with the length of a "
    "vector: pure, with no delta.",
    "RANDOMIZED-RESPONSE": "Privacy of answers that are sometimes replaced by random ones.",
    "EXPONENTIAL-BR": "Privacy of choosing one of several candidates by a noisy score.",
    "OUTPUT-SENSITIVITY": "How far one record can move the weights that minimise a regularised "
    "training loss.",
    "APPROXIMATE-MINIMISER": "The computed optimum is not exact; a second, small noise covers the "
    "certified distance.",
    "CLASS-SUMS": "How far one record can move the sums of rows, class by class.",
    "EXACT-SUM": "Sums that are released are computed without rounding errors.",
    "SECOND-MOMENT": "How far one record can move the matrix of second moments.",
    "WHITENING": "Changing coordinates by something already private costs nothing more.",
    "OBJECTIVE-PERTURBATION": "Privacy of the optimum of a training loss to which a random linear "
    "term was added.",
    "TWO-CHANGES": "To replace a record is to remove one and to add another.",
    "TWO-SIGNED": "Privacy of the optimum where the slope of the loss has either sign.",
    "REGRESSION-MOMENTS": "How far one record can move the second moments of rows and target.",
    "REGRESSION-REPLACE": "How far replacing one record by another can move the second moments of "
    "rows and target, all blocks together.",
    "RESIDUAL-SUMS": "How far one record can move a sum of rows times cut residuals.",
    "PERSON-MEAN": "Privacy of the optimum where a person brings several rows that share one "
    "weight.",
    "PERSON-WEIGHTS": "All rows of one person together count as much as a single row.",
    "PERSON-ORDER": "Persons are numbered at random, so that nobody's rows move others about.",
    "OBJECTIVE-REPLACE": "Privacy of the optimum where one record is replaced by another.",
    "FULL-BATCH": "A mechanism that uses all records costs what its own theorem says.",
    "PARALLEL": "Batches without common records cost no more than the costliest of them: "
    "everybody is in one only.",
    "PARALLEL-GROUPS": "Groups without common people, each with noise of its own, cost no more "
    "than the costliest of them.",
    "PER-PERSON-SCALE": "A person whose contribution is scaled down has a smaller epsilon.",
    "SAMPLE-WEIGHT": "A weight between 0 and 1 only shrinks what a record contributes.",
    "SAMPLE-LEVELS": "A person who joins fewer batches has a smaller epsilon.",
    "POISSON-A": "Taking part by the flip of a coin lowers the cost (add or remove a record).",
    "POISSON-R": "Taking part by the flip of a coin lowers the cost (replace a record).",
    "WOR-R": "Random batches of fixed size lower the cost (replace a record).",
    "WR-R": "Random batches drawn with repetition lower the cost (replace a record).",
    "POSTER-ALG1": "The cost of partly shuffled batches, the founding poster's algorithm.",
    "ALLOCATION-A": "Each record joins one random batch of a pass (add or remove a record).",
    "ALLOCATION-R": "Each record joins one random batch of a pass (replace a record).",
    "ALLOCATION-ONCE": "A pass of randomly allocated batches never costs more than one batch.",
    "LAST-ITERATE-GCM": "Hiding all steps but the last makes later noise protect earlier steps.",
    "LAST-ITERATE-FULL-BATCH": "Hiding all steps but the last, for steps that use all records.",
    "LAST-ITERATE-RESHUFFLED": "Hiding all steps but the last, for a fixed or reshuffled order "
    "of batches.",
    "LAST-ITERATE-LATER-IS-WORSE": "Which order of batches is the worst for one person.",
    "GRADIENT-STEP-LIPSCHITZ": "A small enough training step never drives two runs apart.",
    "GLM-SMOOTHNESS": "How strongly the training losses are curved, which limits the step.",
    "LOSS-LOGISTIC": "How much one record can add to the gradient of the logistic loss.",
    "LOSS-SOFTPLUS": "How much one record can add to the gradient of the smoothed hinge.",
    "LOSS-HINGE": "How much one record can add to the gradient of the hinge.",
    "CMS11-Huber": "How much one record can add to the gradient of the hinge with a rounded "
    "corner.",
    "LOSS-SOFTMAX": "How much one record can add to the gradient of the loss of several classes.",
    "LOSS-SQUARED": "How much one record can add to the gradient of the squared error.",
    "LOSS-HUBER": "How much one record can add to the gradient of the error that is linear far "
    "out.",
    "SOLVER-DISTANCE": "A small gradient proves that the computed optimum is near the exact one.",
    "SOLVER-ENDS": "Every fit ends within a number of steps that public facts give.",
    "SOLVER-CONTINUATION": "Every fit ends in time where the training loss is smooth.",
    "SOLVER-INTERIOR": "Every fit ends in time where the training loss has corners.",
    "SOLVER-NORM": "How large the weights of the exact optimum can be.",
    "ROUND-GRADIENT": "How far the rounding of the computer can falsify a gradient.",
    "ROUND-ATTAINABLE": "Which accuracy of the optimum is always reached, whatever the data are.",
    "ROUND-ANY-ORDER": "Sums over partitions are right to a known error, in whatever order.",
    "HINGE-GAP": "The dual problem of the hinge certifies how near the computed optimum is to "
    "the exact one.",
    "SMOOTHNESS-PRIOR": "Weights of neighbours may be expected to be alike, by a public change of "
    "coordinates; rows are cut after it.",
    "FINISHING": "What is done to released weights costs nothing; people counted by label and "
    "score add at most 1 each.",
    "PAIR-CELLS": "The cells of a pair of columns count as one column, however many there are.",
    "COMPOSE": "How the privacy costs of several steps add up.",
    "NN-INDEPENDENCE": "No record can reach what is computed for another one.",
    "NN-CHANCE": "No record decides which random numbers another one gets.",
    "NN-CANARY": "Invented records are tried as well, and a run that mixes them stops.",
    "NN-CLIP": "Every person's gradient of the network is cut to a public length.",
    "NN-PERSONS": "All rows of one person together move a step as little as a single row.",
    "NN-ADAPTIVE": "The length may follow a noisy count, which is paid for inside the step.",
    "BANDED-MF": "Privacy of noise that is correlated over several steps.",
    "RESUME": "A run that was stopped and resumed costs what was charged for it once.",
    "LOGISTIC-SENSITIVITY-ZERO-OUT": "A sharper bound on what one record adds to a logistic "
    "gradient, at weights already released (blank out a record).",
    "LOGISTIC-SENSITIVITY-REPLACE-ONE": "A sharper bound on what one record changes in a logistic "
    "gradient, at weights already released (replace a record).",
    "FILTER-SUMS": "Epsilons and deltas may be added even if each step is chosen after the last.",
    "FILTER-RENYI": "Renyi costs may be added even if each step is chosen after the last.",
    "FILTER-GDP": "Gaussian costs may be added even if each step is chosen after the last.",
    "SELECT-PROFILE": "The best of a secret, random number of runs costs little more than one run.",
    "SCORE-SUM": "How far one person can move the number of right answers, or a similar sum.",
    "LABEL": "A public lottery between several ways costs what they cost on average.",
    "FLOAT-GRID": "Rounding noisy values to a public grid hides the low bits of the computer.",
    "ZIGGURAT": "Normal noise is made from the words of a cipher, and its law is the normal law.",
}


def meaning(name: str) -> str:
    """Return one line about the theorem with that id."""
    return MEANINGS.get(name, "See docs/theory/theorems.md.")

"""What each theorem says, in one line for a reader who is no expert.

The full statements, with conditions and sources, stand in docs/theory/theorems.md.
"""

__all__ = ["MEANINGS", "meaning"]

MEANINGS: dict[str, str] = {
    "ADJACENCY": "How far one person's record can move a sum of bounded contributions.",
    "ROW-LOCAL": "Encoding each row by itself, with public facts only, costs no privacy.",
    "CLIP": "Cutting every contribution to a public length bounds what one person can change.",
    "GAUSS-EXACT": "The exact privacy of Gaussian noise, for every epsilon and delta.",
    "LAPLACE-1D": "The exact privacy of Laplace noise on one number.",
    "SPHERICAL-LAPLACE": "The exact privacy of noise whose density falls with the length of a "
    "vector: pure, with no delta.",
    "RANDOMIZED-RESPONSE": "Privacy of answers that are sometimes replaced by random ones.",
    "EXPONENTIAL-BR": "Privacy of choosing one of several candidates by a noisy score.",
    "OUTPUT-SENSITIVITY": "How far one record can move the weights that minimise a regularised "
    "training loss.",
    "APPROXIMATE-MINIMISER": "The computed optimum is not exact; a second, small noise covers the "
    "certified distance.",
    "SECOND-MOMENT": "How far one record can move the matrix of second moments.",
    "WHITENING": "Changing coordinates by something already private costs nothing more.",
    "OBJECTIVE-PERTURBATION": "Privacy of the optimum of a training loss to which a random linear "
    "term was added.",
    "FULL-BATCH": "A mechanism that uses all records costs what its own theorem says.",
    "PARALLEL": "Batches without common records cost no more than the dearest of them: everybody "
    "is in one only.",
    "PARALLEL-GROUPS": "The same for groups of people with noise of their own.",
    "PER-PERSON-SCALE": "A person whose contribution is scaled down has a smaller epsilon.",
    "POISSON-A": "Taking part by the flip of a coin lowers the cost (add or remove a record).",
    "POISSON-R": "Taking part by the flip of a coin lowers the cost (replace a record).",
    "WOR-R": "Random batches of fixed size lower the cost (replace a record).",
    "WR-R": "Random batches drawn with repetition lower the cost (replace a record).",
    "POSTER-ALG1": "The cost of partly shuffled batches, the founding poster's algorithm.",
    "ALLOCATION-A": "Each record joins one random batch of a pass (add or remove a record).",
    "ALLOCATION-R": "Each record joins one random batch of a pass (replace a record).",
    "ALLOCATION-ONCE": "A pass of randomly allocated batches never costs more than one batch.",
    "LAST-ITERATE-GCM": "Hiding all steps but the last makes later noise protect earlier steps.",
    "LAST-ITERATE-FULL-BATCH": "The same for steps that use all records.",
    "LAST-ITERATE-RESHUFFLED": "The same for a fixed or reshuffled order of batches.",
    "LOGISTIC-SENSITIVITY-ZERO-OUT": "A sharper bound on what one record adds to a logistic "
    "gradient, at weights already released (blank out a record).",
    "LOGISTIC-SENSITIVITY-REPLACE-ONE": "A sharper bound on what one record changes in a logistic "
    "gradient, at weights already released (replace a record).",
    "FILTER-SUMS": "Epsilons and deltas may be added even if each step is chosen after the last.",
    "FILTER-RENYI": "Renyi costs may be added even if each step is chosen after the last.",
    "FILTER-GDP": "Gaussian costs may be added even if each step is chosen after the last.",
    "FLOAT-GRID": "Rounding noisy values to a public grid hides the low bits of the computer.",
}


def meaning(name: str) -> str:
    """Return one line about the theorem with that id."""
    return MEANINGS.get(name, "See docs/theory/theorems.md.")

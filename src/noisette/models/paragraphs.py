"""Paragraphs that stand in the docstrings of several estimators, written once.

A line ``%(norm_bound, adjacency)`` of a docstring is replaced by the paragraphs of these names when
its class is made, so that ``help`` and the pages of the API show them all.
"""

import re
import textwrap

PARAGRAPHS = {
    "pure": """epsilon, delta : float, default 1.0 and 0.0
    The budget of one ``fit``; delta = 0 is pure privacy.""",
    "target_bounds": """target_bounds : pair of float or "learn"
    The limits (low, high) of the target, public; values beyond are cut. "learn" buys them
    from the same budget (two private quantiles). There is no default.""",
    "norm_bound": """norm_bound : float
    The bound R, public; rows longer than R are scaled down to R. Choose it without the data;
    there is no default, because it would cut raw columns short in silence.""",
    "adjacency": """adjacency : {"replace-one", "zero-out", "add-remove"}, default "replace-one"
    The neighbouring relation.""",
    "fit_intercept": """fit_intercept : bool, default True
    Whether to add the constant column 0.35 R (0.35 if R is None) to every row.""",
    "classes": """classes : sequence, optional
    The label set. None reads it off y; the guarantee then says that it is public.""",
    "class_weight": """class_weight : dict or "balanced", optional
    How much rows of each class count: public weights by label, of which only the ratio matters
    (the largest becomes 1), or "balanced" by noisy counts bought with 5 % of epsilon. Not for
    streams.""",
    "population": """population : int, optional
    A public guess of n; needed under add-remove where n would set a parameter.""",
    "missing": """missing : {"refuse", "zero"}, default "refuse"
    What a NaN in X does: "refuse" it, or read it as "zero" (row by row, at no cost).""",
    "random_state": """random_state : int or Randomness, optional
    None draws secure noise. A number makes the run reproducible and the guarantee void, for
    experiments.""",
    "ledger": """ledger : Ledger, optional
    The budget to charge; None opens one of (epsilon, delta) for each ``fit``.""",
    "coef_": """coef_ : ndarray of shape (1, d) or (K, d)
    One row for two classes, else one for each class.
intercept_ : ndarray of shape (1,) or (K,)
    The intercepts.
classes_ : ndarray of shape (K,)
    The sorted labels.""",
    "numbers": """coef_ : ndarray of shape (d,)
    The coefficients.
intercept_ : float
    The intercept.
target_bounds_ : tuple of float
    The limits that were bought, with ``target_bounds="learn"``.""",
    "features": """n_features_in_, feature_names_in_ : int, ndarray of str
    As in scikit-learn.""",
    "privacy_": """privacy_ : Guarantee
    What is promised about ``coef_`` and ``intercept_``.""",
    "rows": """X : array_like or sparse matrix of shape (n, d)
    Rows longer than ``norm_bound`` are scaled down to it.""",
    "rows or stream": """X : array_like, sparse matrix or stream
    A matrix of n rows, those longer than ``norm_bound`` scaled down to it; or a stream: an
    iterator of pairs (X, y), of Arrow record batches, or of paths of Parquet files (a path
    or a list of paths), read once in constant memory; its chunks after the first are checked
    as they come, when all is charged.""",
    "persons": """persons : array_like of shape (n,) or Persons, optional
    Whose row each row is, by any identifier. The guarantee is then about persons with
    all their rows, whose weights add up to one; the number of rows is private, and
    ``population``, ``regularization`` and ``delta`` count persons.""",
    "verbose": """verbose : int, default 0
    With 1, steps and time, which are public, are shown, and nothing else.""",
    "fitted": """Returns
-------
self
    The fitted estimator.""",
    "refusals": """Raises
------
InvalidParameter
    If a parameter of the estimator is out of range; nothing is charged.
InvalidData
    If X, y or a vector has the wrong shape or entries; nothing is charged.
Unproven
    If no theorem covers the parameters together; nothing is charged.
BudgetExceeded
    If the ledger has too little left; nothing is charged.""",
    "size": """n : int
    The number of records, or a guess of it; with `persons`, of persons.
d : int
    The number of features.""",
    "planned persons": """persons : bool, default False
    Whether ``fit`` will get persons; the guarantee is then about all rows of one.
max_rows : int, optional
    The public cap on the rows of a person, where there is one.""",
    "forecast": """Returns
-------
Forecast
    The plan, its epsilon, the noise in plain units; of a model also memory and time.

Raises
------
InvalidParameter
    If a parameter of the estimator is out of range.
Unproven
    If no theorem covers the parameters together.""",
    "table": """Parameters
----------
X : table
    A pandas, polars or pyarrow table, or a dictionary of columns.""",
    "additive": """epsilon : float
    The budget of everything that is released.
delta : float
    0 is pure; a delta such as 1e-6 buys much finer curves.
schema : dict, Schema or path
    As in `TableClassifier`.
pairs : list of (str, str), optional
    Columns that the model may look at together, chosen without a look at the table: latitude
    and longitude, day and month. Each adds a surface; where rows times epsilon are too few for
    that, by a public rule, they are left out, and the guarantee's notes say so.""",
    "test_share": """test_share : float, optional
    The part of the people, chosen without a look at their values, on whom the model is scored
    instead of trained: ``test_`` is then covered by the same guarantee, at no further cost.
share : float, optional
    The part of the budget for everything but the model; None follows a public rule.""",
    "released": """privacy_ : Guarantee
    What is promised about everything that was released.""",
    "to classify": """Parameters
----------
X : array_like or sparse matrix of shape (n, d)
    Rows to classify.""",
    "columns": """Returns
-------
ndarray of shape (n, K)
    One column for each of ``classes_``.""",
    "to search": """Parameters
----------
X : array_like or table
    What the estimator takes.""",
    "one charge": """The first call charges the ledger once for the whole stream: everybody is in
one chunk and one batch, so more chunks cost nothing (parallel composition). Nothing is kept of a
chunk; the last batch of each may be smaller. Handing in the same object twice is refused; a second
pass over the same people is another ``fit``, with its own charge.""",
    "chunk": """X : array_like or sparse matrix of shape (n, d)
    Rows of people who were in no chunk before.""",
    "no persons": """persons : None
    Refused: the rows of one person may lie in several chunks.""",
    "after a chunk": """Returns
-------
self
    The estimator, fitted on all chunks so far.

Raises
------
InvalidParameter
    If a parameter is out of range, or what a stream must know is not given.
InvalidData
    If the chunk has the wrong shape or entries, or was handed in before.
BudgetExceeded
    If the ledger has too little left; nothing is charged.""",
}


def fill(owner: type) -> None:
    """Put the paragraphs that they name into the docstrings of a class and its own methods."""
    for member in (owner, *vars(owner).values()):
        each = getattr(member, "fn", member)  # of scikit-learn's `available_if`
        text = getattr(each, "__doc__", None)
        if isinstance(text, str) and "%(" in text:
            each.__doc__ = re.sub(r"^( *)%\((.+)\)$", _paragraphs, text, flags=re.M)


def _paragraphs(named: re.Match[str]) -> str:
    lines: list[str] = []
    for name in named[2].split(", "):
        if lines and "---" in PARAGRAPHS[name]:  # a section of its own
            lines.append("")
        lines += PARAGRAPHS[name].splitlines()
    return textwrap.indent("\n".join(lines), named[1])

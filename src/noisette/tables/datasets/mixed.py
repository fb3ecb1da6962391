"""An invented table of loan requests, numbers and categories mixed, for demos and tests.

Generated, no file: 20,000 rows by default. The columns depend on each other as in life (income
on education, age and work), and whether a loan is repaid depends on them through a logistic model:
about 74 % accuracy for a linear model, 62 % for the commoner class. The schema holds the public
facts (bounds, levels, classes) that a user would write down without looking.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from noisette import _validate
from noisette._typing import Floats
from noisette.core.randomness import Randomness
from noisette.tables.datasets.base import Encoder, InventedTable, normal, number
from noisette.tables.kinds import Categorical, Column

EDUCATION = ("none", "school", "college", "university")
REGION = ("north", "east", "south", "west", "islands")
JOB = ("employed", "self-employed", "public", "student", "retired", "unemployed")
CLASSES = ("no", "yes")

SCHEMA: dict[str, Any] = {
    "target": "repaid",
    "classes": list(CLASSES),
    "columns": {
        "age": {"type": "number", "low": 18, "high": 90},
        "income": {"type": "number", "low": 0, "high": 200_000},
        "amount": {"type": "number", "low": 500, "high": 60_000},
        "months": {"type": "number", "low": 6, "high": 84},
        "late_payments": {"type": "number", "low": 0, "high": 12},
        "education": {"type": "category", "levels": list(EDUCATION)},
        "region": {"type": "category", "levels": list(REGION)},
        "job": {"type": "category", "levels": list(JOB)},
        "owns_home": {"type": "category", "levels": ["no", "yes"]},
    },
}

_COLUMNS: tuple[Column, ...] = (
    number("age", 18, 90, center=45, width=2.0),
    number("income", 1_000, 200_000, center=30_000, curve="log1p", width=3.0),
    number("amount", 500, 60_000, center=8_000, curve="log1p", width=2.0),
    number("months", 6, 84, center=36),
    number("late_payments", 0, 12, curve="log1p", width=2.0),
    Categorical.of("education", EDUCATION, "school"),
    Categorical.of("region", REGION, "north"),
    Categorical.of("job", JOB, "employed"),
    Categorical.of("owns_home", CLASSES, "no", other=False),
)
ENCODER = Encoder(_COLUMNS, typical_norm=1.75)


def _pick(generator: np.random.Generator, names: tuple[str, ...], weights: Floats) -> NDArray[Any]:
    """One name per row of `weights` (n, K), with probability proportional to the weight."""
    cumulative = np.cumsum(weights, axis=1)
    u = generator.random(len(weights)) * cumulative[:, -1]
    chosen = (u[:, None] > cumulative).sum(axis=1).clip(max=len(names) - 1)
    return np.asarray(np.array(names)[chosen])


def mixed_table(n: int = 20_000, *, seed: int = 0) -> InventedTable:
    """Return `n` invented loan requests and their schema; the same seed gives the same table.

    Parameters
    ----------
    n : int, default 20_000
        How many rows.
    seed : int, default 0
        Of the generator; nobody is protected, since nobody is in it.

    Returns
    -------
    InventedTable
        Columns and schema.

    Examples
    --------
    >>> from noisette.datasets import mixed_table
    >>> len(mixed_table(n=100).columns["age"])
    100

    """
    n = _validate.integer("n", n)
    g = Randomness.from_seed(seed).generator
    age = np.clip(np.round(44.0 + 15.0 * normal(g, n)), 18, 90)
    young, old = expit((28.0 - age) / 3.0), expit((age - 65.0) / 2.0)
    ones = np.ones(n)
    education = _pick(
        g, EDUCATION, np.stack([0.1 + 0.2 * old, 0.45 * ones, 0.25 * ones, 0.2 * ones], 1)
    )
    region = _pick(g, REGION, np.tile([0.3, 0.2, 0.25, 0.2, 0.05], (n, 1)))
    middle = np.clip(1.0 - young - old, 0.05, 1.0)
    shares = (0.55 * middle, 0.12 * middle, 0.18 * middle, 0.8 * young, 2.0 * old, 0.08 * ones)
    job = _pick(g, JOB, np.stack(shares, axis=1))
    rank = (education[:, None] == np.array(EDUCATION)).argmax(axis=1)
    works = np.isin(job, ("employed", "self-employed", "public"))
    log_income = 9.4 + 0.22 * rank + 0.55 * works + 0.012 * (age - 40.0) * works
    log_income = log_income + 0.35 * normal(g, n) - 0.15 * (region == "islands")
    income = np.clip(np.round(np.exp(log_income), -1), 0, 200_000)
    amount = np.clip(
        np.round(np.exp(8.9 + 0.5 * (log_income - 10.0) + 0.6 * normal(g, n)), -1), 500, 60_000
    )
    months = 6.0 * g.integers(1, 15, n)
    late = np.minimum(
        np.floor(-np.log1p(-g.random(n)) * np.exp(0.3 - 0.8 * (log_income - 10.0))), 12
    )
    home = np.where(g.random(n) < expit((age - 45.0) / 12.0 + (log_income - 10.0)), "yes", "no")
    score = (
        0.3 + 1.5 * (log_income - 10.0) - 1.2 * (np.log(amount) - 9.0) - 0.015 * (months - 36.0)
        - 0.9 * np.log1p(late) + 0.6 * (home == "yes") - 0.9 * (job == "unemployed")
        + 0.25 * rank - 0.3 * (region == "islands")
    )  # fmt: skip
    columns: dict[str, NDArray[Any]] = {
        "age": age.astype(np.int64),
        "income": income,
        "amount": amount,
        "months": months.astype(np.int64),
        "late_payments": late.astype(np.int64),
        "education": education,
        "region": region,
        "job": job,
        "owns_home": home,
        "repaid": np.where(g.random(n) < expit(score), "yes", "no"),
    }
    return InventedTable(
        "mixed", columns, SCHEMA, ENCODER, held_out=np.arange(n) >= n - n // 5,
        unit="one row is one invented person",
    )  # fmt: skip

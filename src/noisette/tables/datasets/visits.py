"""An invented table of hospital visits: several rows for one patient, for demos and tests.

Generated, no file: 6,000 patients by default, with 1 to 40 visits each. How often somebody comes
has a heavy tail (half of the patients come once, one in 40 comes 40 times), and depends on the
same hidden frailty as the label: whether the visit is followed by another one within a month. So a
patient's rows are alike, a patient's *first* row knows nothing of earlier visits, and a promise
about one row is not a promise about a patient. Rows stand in the order of the visits' dates, so
that those of one patient are spread over the table. The schema holds the public facts that a user
would write down without looking.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, ndtri

from noisette import _validate
from noisette._typing import Floats
from noisette.core.randomness import Randomness
from noisette.tables.datasets.base import Encoder, InventedTable, normal, number
from noisette.tables.kinds import Categorical, Column

MOST = 40
SEX = ("female", "male")
ILLNESS = ("none", "diabetes", "heart", "lung", "kidney")
WARD = ("emergency", "internal", "surgery", "geriatrics")
CLASSES = ("no", "yes")
PERSON, TARGET = "patient", "readmitted"

SCHEMA: dict[str, Any] = {
    "target": TARGET,
    "classes": list(CLASSES),
    "unit": "one row is one visit",
    "columns": {
        PERSON: {"kind": "ignore"},
        "age": {"kind": "numeric", "low": 18, "high": 100},
        "sex": {"kind": "categorical", "categories": list(SEX)},
        "illness": {"kind": "categorical", "categories": list(ILLNESS)},
        "ward": {"kind": "categorical", "categories": list(WARD)},
        "nights": {"kind": "numeric", "low": 0, "high": 60},
        "drugs": {"kind": "numeric", "low": 0, "high": 30},
        "earlier": {"kind": "numeric", "low": 0, "high": MOST - 1},
        "gap": {"kind": "numeric", "low": 1, "high": 730},
    },
}

_COLUMNS: tuple[Column, ...] = (
    number("age", 18, 100, center=60, width=2.0),
    Categorical.of("sex", SEX, "female", other=False),
    Categorical.of("illness", ILLNESS, "none", other=False),
    Categorical.of("ward", WARD, "internal", other=False),
    number("nights", 0, 60, center=3, curve="log1p", width=2.0),
    number("drugs", 0, 30, center=5, curve="log1p", width=2.0),
    number("earlier", 0, MOST - 1, curve="log1p", width=2.0),
    number("gap", 1, 730, center=365, curve="log1p", width=2.0),
)
ENCODER = Encoder(_COLUMNS, typical_norm=2.25)


def visits(persons: int = 6_000, *, seed: int = 0) -> InventedTable:
    """Return the visits of invented patients; the same seed gives the same table.

    Parameters
    ----------
    persons : int, default 6_000
        How many patients; each has 1 to 40 rows, about four on average.
    seed : int, default 0
        Of the generator; nobody is protected, since nobody is in it.

    Returns
    -------
    InventedTable
        Columns, schema, and who is held out.

    Raises
    ------
    InvalidParameter
        If there are fewer than 5 patients.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.datasets import visits
    >>> ids, rows = np.unique(visits(persons=1000).columns["patient"], return_counts=True)
    >>> len(ids), int(rows.min()), int(rows.max())
    (1000, 1, 40)

    """
    n = _validate.integer("persons", persons, least=5)
    g = Randomness.from_seed(seed).generator
    frailty = normal(g, n)
    # P(at least k visits) = k^-1, up to the cap; the frail come more often.
    position = 0.6 * frailty + 0.8 * normal(g, n)
    count = np.minimum(np.floor(np.exp(-log_ndtr(-position))), MOST).astype(np.int64)
    age = np.clip(np.round(58.0 + 10.0 * frailty + 14.0 * normal(g, n)), 18, 100)
    male = g.random(n) < 0.48
    hidden = 0.5 * frailty + np.sqrt(0.75) * normal(g, n)
    ill = np.searchsorted(ndtri([0.45, 0.62, 0.80, 0.92]), hidden)  # the frail are seldom without
    who = np.repeat(np.arange(n), count)
    earlier = np.arange(len(who)) - np.repeat(np.cumsum(count) - count, count)
    table, score = _each_visit(g, earlier, frailty[who], age[who], ill[who], male[who])
    label = np.where(g.random(len(who)) < expit(score), CLASSES[1], CLASSES[0])
    # A patient's first visit is on any day of three years.
    first = np.r_[True, who[1:] != who[:-1]]
    walked = np.cumsum(np.where(first, 0.0, table["gap"].astype(float)))
    day = walked - walked[first][who] + (1095.0 * g.random(int(first.sum())))[who]
    order = np.argsort(day, kind="stable")
    # A name says nothing about its patient.
    names = np.array([f"P{number:06d}" for number in np.argsort(g.random(n), kind="stable")])
    columns: dict[str, NDArray[Any]] = {
        PERSON: names[who],
        "age": age[who].astype(np.int64),
        "sex": np.where(male, SEX[1], SEX[0])[who],
        "illness": np.array(ILLNESS)[ill][who],
        **table,
        TARGET: label,
    }
    held_out = np.arange(n) >= n - n // 5
    return InventedTable(
        "visits", {name: values[order] for name, values in columns.items()}, SCHEMA, ENCODER,
        held_out[who][order],
        "one row is one visit of an invented patient, who may have several",
        {"person": PERSON, "max_rows": MOST},
    )  # fmt: skip


def _each_visit(
    g: np.random.Generator, earlier: NDArray[np.int64], frailty: Floats, age: Floats,
    ill: NDArray[np.intp], male: NDArray[np.bool_],
) -> tuple[dict[str, NDArray[Any]], Floats]:  # fmt: skip
    """Return what differs from visit to visit, and the score of a readmission."""
    n = len(earlier)
    log_gap = 5.0 - 0.5 * frailty - 0.25 * np.log1p(earlier) + 0.9 * normal(g, n)
    gap = np.where(earlier == 0, 730.0, np.clip(np.round(np.exp(log_gap)), 1, 730))
    drugs = np.clip(np.round(5.0 + 2.0 * frailty + 1.5 * (ill > 0) + 2.5 * normal(g, n)), 0, 30)
    nights = np.clip(np.floor(np.exp(1.1 + 0.3 * frailty + 0.7 * normal(g, n))), 0, 60)
    ward = np.searchsorted(ndtri([0.35, 0.7, 0.88]), normal(g, n) + 0.02 * (age - 58.0))
    risk = np.array([0.0, 0.2, 0.5, 0.4, 0.7])
    score = (
        -1.5 + 0.5 * frailty + risk[ill] + 0.5 * np.log1p(earlier) - 0.3 * (np.log(gap) - 5.0)
        + 0.25 * (np.log1p(nights) - 1.4) + 0.06 * (drugs - 5.0) + 0.008 * (age - 58.0)
        + 0.1 * male + 0.35 * (ward == 0) - 0.3 * (ward == 2)
    )  # fmt: skip
    table: dict[str, NDArray[Any]] = {
        "ward": np.array(WARD)[ward],
        "nights": nights.astype(np.int64),
        "drugs": drugs.astype(np.int64),
        "earlier": earlier,
        "gap": gap.astype(np.int64),
    }
    return table, score

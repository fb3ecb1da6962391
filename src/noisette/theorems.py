"""The ids of all theorems, and which others each of them rests on as the code uses it.

docs/theory/theorems.md states them and travels with the package (`statements` reads it); a test
compares its headings with this list, which is here so that an id can be refused without reading a
file. A guarantee cites the theorems it names and, by `with_grounds`, what those rest on.
"""

import re
from collections.abc import Iterable

from noisette._carried import carried

__all__ = ["THEOREMS", "grounds_of", "statements", "with_grounds"]

_SOLVER = ("SOLVER-DISTANCE", "SOLVER-NORM", "ROUND-GRADIENT", "ROUND-ATTAINABLE", "SOLVER-ENDS")
_LAST = ("LAST-ITERATE-GCM", "GRADIENT-STEP-LIPSCHITZ", "GLM-SMOOTHNESS")

_GROUNDS: dict[str, tuple[str, ...]] = {
    "CLIP": ("ADJACENCY",),
    "GAUSS-EXACT": ("FLOAT-GRID", "ZIGGURAT"),
    "LAPLACE-1D": ("FLOAT-GRID",),
    "SPHERICAL-LAPLACE": ("FLOAT-GRID", "ZIGGURAT"),
    "LAPLACE-L1": ("FLOAT-GRID",),
    "OUTPUT-SENSITIVITY": ("CLIP", *_SOLVER),
    "APPROXIMATE-MINIMISER": _SOLVER,
    "OBJECTIVE-PERTURBATION": ("CLIP", "APPROXIMATE-MINIMISER"),
    "OBJECTIVE-REPLACE": ("OBJECTIVE-PERTURBATION", "TWO-CHANGES"),
    "TWO-SIGNED": ("OBJECTIVE-PERTURBATION", "TWO-CHANGES"),
    "PERSON-MEAN": ("OBJECTIVE-PERTURBATION", "TWO-CHANGES"),
    "PERSON-WEIGHTS": ("ADJACENCY",),
    "PERSON-ORDER": ("PERSON-WEIGHTS",),
    "SOLVER-ENDS": ("SOLVER-CONTINUATION", "SOLVER-INTERIOR"),
    "SECOND-MOMENT": ("CLIP", "EXACT-SUM"),
    "CLASS-SUMS": ("CLIP", "EXACT-SUM"),
    "REGRESSION-MOMENTS": ("CLIP", "EXACT-SUM"),
    "REGRESSION-REPLACE": ("REGRESSION-MOMENTS",),
    "RESIDUAL-SUMS": ("CLIP", "WHITENING"),
    "WHITENING": ("SECOND-MOMENT",),
    "PER-PERSON-SCALE": ("CLIP",),
    "SAMPLE-WEIGHT": ("CLIP",),
    "CLASS-WEIGHT": ("ROW-LOCAL",),
    "LAST-ITERATE-RESHUFFLED": (*_LAST, "LAST-ITERATE-LATER-IS-WORSE"),
    "LAST-ITERATE-FULL-BATCH": _LAST,
    "LOGISTIC-SENSITIVITY-ZERO-OUT": ("CLIP", "FILTER-GDP"),
    "LOGISTIC-SENSITIVITY-REPLACE-ONE": ("CLIP", "FILTER-GDP"),
    "NN-CLIP": ("ADJACENCY",),
    "NN-ADAPTIVE": ("NN-CLIP",),
    "NN-PERSONS": ("NN-CLIP", "PERSON-WEIGHTS"),
    "BANDED-MF": ("NN-CLIP", "FILTER-GDP"),
    "SAMPLE-LEVELS": ("PARALLEL-GROUPS",),
    "QUANTILE-TREE": ("QUANTILE",),
    "CATEGORY-THRESHOLD": ("HISTOGRAM", "GAUSS-EXACT"),
    "SCORE-TABLE": ("HISTOGRAM", "ROW-LOCAL"),
    "PAIR-CELLS": ("HISTOGRAM", "ROW-LOCAL"),
    "SMOOTHNESS-PRIOR": ("WHITENING",),
    "TEST-SHARE": ("PARALLEL-GROUPS", "SCORE-TABLE"),
    "SELECT-PROFILE": ("LABEL",),
    "SCORE-SUM": ("ADJACENCY", "EXACT-SUM"),
}

_IDS = """
ADJACENCY CLIP GAUSS-EXACT GDP-CURVE LAPLACE-1D LAPLACE-L1 SPHERICAL-LAPLACE SPHERICAL-ANGLE
RANDOMIZED-RESPONSE EXPONENTIAL-BR PURE-RR OUTPUT-SENSITIVITY APPROXIMATE-MINIMISER
SECOND-MOMENT WHITENING TWO-CHANGES OBJECTIVE-PERTURBATION OBJECTIVE-REPLACE
PERSON-MEAN PERSON-WEIGHTS PERSON-ORDER TWO-SIGNED REGRESSION-MOMENTS REGRESSION-REPLACE
RESIDUAL-SUMS
FULL-BATCH PARALLEL PARALLEL-GROUPS PER-PERSON-SCALE SAMPLE-WEIGHT POISSON-A POISSON-R WOR-R
POSTER-ALG1 ALLOCATION-A ALLOCATION-R ALLOCATION-ONCE SUBSAMPLE-PURE SHUFFLE-LOWER
TWO-LOSS-EXAMPLE
LAST-ITERATE-GCM LAST-ITERATE-FULL-BATCH LAST-ITERATE-LATER-IS-WORSE LAST-ITERATE-RESHUFFLED
LAST-ITERATE-BOUNDED-DOMAIN GRADIENT-STEP-LIPSCHITZ GLM-SMOOTHNESS
LOSS-LOGISTIC LOSS-SOFTPLUS LOSS-HINGE CMS11-Huber LOSS-SOFTMAX LOSS-SQUARED LOSS-HUBER
LOSS-LOGCOSH LOSS-POISSON SOLVER-DISTANCE SOLVER-NORM ROUND-GRADIENT ROUND-ATTAINABLE HINGE-GAP
LOGISTIC-SENSITIVITY-ZERO-OUT LOGISTIC-SENSITIVITY-REPLACE-ONE
TABLE LABEL WR-R COMPOSE PURE-SUM CTD-UPPER LOWER-LATTICE TILT-FFT COMPLEX-ORDER KOV-APPROX KOV
KOV-MIXED RENYI-TO-DP GDP-COMPOSITION
NN-CLIP NN-ADAPTIVE NN-PERSONS BANDED-MF SAMPLE-LEVELS RESUME
FILTER-SUMS FILTER-RENYI FILTER-GDP
ROW-LOCAL TEST-POWER
QUANTILE QUANTILE-TREE CATEGORY-THRESHOLD HISTOGRAM PLAN-BEFORE-LOOK
SCORE-TABLE TEST-SHARE CLASS-WEIGHT PAIR-CELLS SMOOTHNESS-PRIOR
AUDIT-CLOPPER-PEARSON AUDIT-BETTING AUDIT-GDP AUDIT-ONE-RUN
SELECT-PROFILE SCORE-SUM
FLOAT-GRID
ZIGGURAT
SPHERICAL-POSITIVE MOMENTS-POSITIVE LAST-ITERATE-SPLIT SOLVER-CONTINUATION SOLVER-INTERIOR
SOLVER-ENDS NN-INDEPENDENCE FILTER-CONCURRENT AUDIT-EXACT EXACT-SUM CLASS-SUMS
"""

THEOREMS = frozenset(_IDS.split())


def grounds_of(name: str) -> tuple[str, ...]:
    """Return the theorems on which one rests directly."""
    return _GROUNDS.get(name, ())


def with_grounds(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids, each once, followed by those of all theorems that they rest on."""
    found = dict.fromkeys(ids)
    waiting = list(found)
    while waiting:
        new = [name for name in _GROUNDS.get(waiting.pop(0), ()) if name not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return tuple(found)


def statements() -> dict[str, dict[str, str]]:
    """Return chapter -> id -> the theorem in Markdown, in the order of the page."""
    found: dict[str, dict[str, str]] = {}
    for chapter in re.split(r"^## ", carried("theorems.md"), flags=re.M)[1:]:
        title, _, rest = chapter.partition("\n")
        parts = (part.partition("\n") for part in re.split(r"^### ", rest, flags=re.M)[1:])
        found[title.strip()] = {name.strip(): text.strip() for name, _, text in parts}
    return found

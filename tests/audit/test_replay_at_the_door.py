"""Replay at the door: every value that leaves, on hostile neighbours that are forced onto one past.

A case of `replay_battery` is all that a new estimator needs. The whole product of cases, relations,
units, pure and with a delta, and of all neighbours runs behind `slow`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from replay_battery import CASES, EPSILON, Case, Setting, replayed, shown

from noisette.core.bounded import Bounded

torch = pytest.importorskip("torch", reason="the nn extra is not installed")
torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")

FEW = (
    "the other end", "the other end, the same label", "a crossed record", "all cells None",
    "cells of other types, 3", "numbers inf", "numbers 1e+300", "numbers -0.0", "a single row",
    "one identifier missing", "the label None",
)  # fmt: skip

ENDS = (
    "the other end", "the other end, the same label", "the same end, another label",
    "a crossed record",
)  # fmt: skip

TIGHT: dict[str, tuple[str, str, str]] = {
    "BANDED-MF": ("network, banded", "replace-one", "person"),
    "CATEGORY-THRESHOLD": ("categories", "replace-one", "person"),
    "CLASS-SUMS": ("selector", "replace-one", "record"),
    "CLIP": ("sgd, clipped", "replace-one", "record"),
    "HISTOGRAM": ("evaluate", "add-remove", "person"),
    "LOGISTIC-SENSITIVITY-REPLACE-ONE": ("sgd, descent", "replace-one", "record"),
    "LOGISTIC-SENSITIVITY-ZERO-OUT": ("sgd, descent", "zero-out", "person"),
    "NN-ADAPTIVE": ("network, adaptive", "replace-one", "record"),
    "NN-CLIP": ("network", "replace-one", "record"),
    "OBJECTIVE-PERTURBATION": ("huber, objective", "zero-out", "person"),
    "OUTPUT-SENSITIVITY": ("huber, output, alone", "replace-one", "record"),
    "PARALLEL": ("sgd regressor", "replace-one", "record"),
    "PARALLEL-GROUPS": ("sgd, groups", "replace-one", "record"),
    "QUANTILE": ("bounds", "add-remove", "record"),
    "QUANTILE-TREE": ("knots", "replace-one", "record"),
    "REGRESSION-MOMENTS": ("linear regression", "zero-out", "record"),
    "REGRESSION-REPLACE": ("linear regression", "replace-one", "record"),
    "RESIDUAL-SUMS": ("linear regression, less epsilon", "add-remove", "record"),
    "SCORE-SUM": ("search", "add-remove", "record"),
    "SECOND-MOMENT": ("projection", "replace-one", "record"),
}
"""Where the neighbours attain a theorem's bound: a tenth less is seen there."""

LOOSE = {"APPROXIMATE-MINIMISER"}
"""How far a solver may stop from the minimiser: solvers stop nearer. See the attack "solver"."""


def checked(each: Case, setting: Setting, names: tuple[str, ...] | None = None) -> Any:
    out = replayed(each, setting, lambda name: names is None or name in names)
    assert not out.faults, shown(out)
    assert out.applies, shown(out)
    assert out.moves.keys() <= TIGHT.keys() | LOOSE
    return out


def fast() -> list[Any]:
    """Return one setting of every fast case, another one for each: all relations, units, laws."""
    chosen = []
    for number, each in enumerate(each for each in CASES.values() if not each.slow):
        offered = each.settings()
        setting = offered[5 * number % len(offered)]
        chosen.append(pytest.param(each, setting, id=named(each, setting)))
    return chosen


def named(each: Case, setting: Setting) -> str:
    law = "delta" if setting.delta else "pure"
    return f"{each.name}, {setting.adjacency}, {setting.unit}, {law}"


@pytest.mark.parametrize(("each", "setting"), fast())
def test_nothing_moves_by_more_than_is_stated(each: Case, setting: Setting) -> None:
    checked(each, setting, FEW)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("each", "setting"),
    [pytest.param(c, s, id=named(c, s)) for c in CASES.values() for s in c.settings()],
)
def test_nothing_moves_in_the_whole_product(each: Case, setting: Setting) -> None:
    checked(each, setting)


@contextmanager
def shrunk(proof: str, factor: float = 0.9) -> Iterator[None]:
    """Make every bound of one theorem too small."""
    real = Bounded.__post_init__

    def smaller(self: Bounded) -> None:
        real(self)
        for name in ("l2", "l1", "linf", "contribution"):
            if self.proof == proof and getattr(self, name) is not None:
                object.__setattr__(self, name, factor * getattr(self, name))

    with mock.patch.object(Bounded, "__post_init__", smaller):
        yield


@pytest.mark.parametrize("proof", TIGHT)
def test_a_bound_that_is_a_tenth_too_small_is_seen(proof: str) -> None:
    name, adjacency, unit = TIGHT[proof]
    offered = [s for s in CASES[name].settings() if (s.adjacency, s.unit) == (adjacency, unit)]
    law = {"PARALLEL": 0}.get(proof, len(offered) - 1)
    assert checked(CASES[name], offered[law], ENDS).moves[proof] > 0.9
    with shrunk(proof):
        out = replayed(CASES[name], offered[law], lambda each: each in ENDS)
    if proof == "CATEGORY-THRESHOLD":  # the mechanism knows its bound, and refuses another one
        assert len(out.refused) == len(ENDS)
    else:
        assert any("times its declared bound" in fault for fault in out.faults), shown(out)


def test_a_refusal_is_counted_and_not_compared() -> None:
    setting = Setting("replace-one", 0.0, "record")
    out = replayed(CASES["logistic, objective"], setting, lambda name: name == "numbers inf")
    assert (out.runs, len(out.refused), out.faults) == (2, 1, [])


@pytest.mark.parametrize("name", ["logistic, objective", "linear regression", "bounds"])
def test_every_refusal_is_a_sentence(name: str) -> None:
    """A date among numbers ends in float()'s TypeError."""
    setting = Setting("replace-one", 0.0, "record")
    out = replayed(CASES[name], setting, lambda each: each.startswith("cells of other types"))
    assert not out.unstated, out.unstated


def test_what_is_kept_and_depends_on_the_data_is_seen() -> None:
    case, setting = CASES["logistic, output"], Setting("replace-one", 0.0, "record")

    def careless(table: Any, setting: Setting, tape: Any) -> Any:
        found = case.run(table, setting, tape)
        found["model"].n_positive_ = int(sum(table.labels))
        return found

    out = replayed(
        Case("careless", case.table, careless), setting, lambda name: name == "the other end"
    )
    assert any("n_positive_" in fault for fault in out.faults), shown(out)
    assert EPSILON > 1.0

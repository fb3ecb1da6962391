"""Bad input is refused before anything is charged; rows above the bound are never believed."""

import numpy as np
import pytest
from one_shot_oracle import facts, one_shot

from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter, NoisetteError
from noisette.fitting.algorithms import (
    ObjectivePerturbation,
    OutputPerturbation,
    WhitenedObjective,
    with_intercept,
)
from noisette.fitting.algorithms.output_perturbation import sensitivity
from noisette.fitting.losses import Logistic, Squared
from noisette.fitting.solvers import default_tolerance, minimise

WRONG = (AssertionError, pytest.fail.Exception)
TRAINERS = [OutputPerturbation(), ObjectivePerturbation(), WhitenedObjective()]
N = 20


def good() -> dict:
    rows = np.eye(4)[np.arange(N) % 4]
    return {"rows": rows, "y": np.where(np.arange(N) % 3, 1.0, -1.0), "weights": None, "size": N}


def nan_row(given: dict) -> None:
    given["rows"] = given["rows"] * np.nan


def long_row(given: dict) -> None:
    given["rows"] = given["rows"] * 1.1


def other_labels(given: dict) -> None:
    given["y"] = (given["y"] + 1.0) / 2.0


def short_labels(given: dict) -> None:
    given["y"] = given["y"][:-1]


def heavy(given: dict) -> None:
    given["weights"] = np.full(N, 1.5)


def negative(given: dict) -> None:
    given["weights"] = np.full(N, -0.1)


def nan_weights(given: dict) -> None:
    given["weights"] = np.full(N, np.nan)


def more_rows_than_public(given: dict) -> None:
    given["size"] = N - 1


CASES = [nan_row, long_row, other_labels, short_labels, heavy, negative, nan_weights,
         more_rows_than_public]  # fmt: skip


def attempt(trainer: object, spoil: object) -> object:
    given = good()
    spoil(given)
    delta = 1e-6 if trainer == WhitenedObjective() else 0.0
    public = facts("replace-one", 1.0, delta, size=given["size"])
    with pytest.raises(NoisetteError):
        one_shot(
            trainer, given["rows"], [given["y"]], Logistic(), public, Randomness.from_seed(0),
            sample_weight=given["weights"],
        )  # fmt: skip
    return public.ledger


@pytest.mark.parametrize("spoil", CASES)
@pytest.mark.parametrize("trainer", TRAINERS[:2])
def test_bad_input_is_refused(trainer: object, spoil: object) -> None:
    attempt(trainer, spoil)


@pytest.mark.parametrize("spoil", CASES)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_bad_input_charges_nothing(trainer: object, spoil: object) -> None:
    assert attempt(trainer, spoil).charges == []


def test_squared_error_has_no_output_sensitivity_and_charges_nothing() -> None:
    public = facts("zero-out", size=N)
    given = good()
    with pytest.raises(NoisetteError):
        one_shot(
            OutputPerturbation(), given["rows"], [given["y"]], Squared(1.0), public,
            Randomness.from_seed(0),
        )  # fmt: skip
    assert public.ledger.charges == []


@pytest.mark.parametrize("trainer", TRAINERS[:2])
def test_a_solve_not_proven_to_end_is_refused_before_the_charge(trainer: object) -> None:
    """One sentence, the same for every data set with these public facts; it names a way out."""
    said = set()
    for seed in range(2):
        given = good()
        given["rows"] = given["rows"][np.random.default_rng(seed).permutation(N)]
        public = facts("zero-out", 1.0, 1e-6, regularization=1e-11, size=N)
        with pytest.raises(InvalidParameter, match=r"too (small|little)|so little") as refusal:
            one_shot(
                trainer, given["rows"], [given["y"]], Logistic(), public, Randomness.from_seed(0)
            )
        assert public.ledger.charges == []
        said.add(str(refusal.value))
    assert len(said) == 1
    (sentence,) = said
    if trainer == OutputPerturbation():
        named = float(sentence.split("; use ")[1].split(" ")[0])
        public = facts("zero-out", 1.0, 1e-6, regularization=named, size=N)
        one_shot(trainer, given["rows"], [given["y"]], Logistic(), public, Randomness.from_seed(0))
        assert len(public.ledger.charges) == 1


def test_whitening_refuses_before_the_charge_what_is_not_proven_to_end() -> None:
    """Lambda follows from epsilon and the released moment: for so many rows it is too small."""
    given = good()
    public = facts("zero-out", 20.0, 1e-6, size=10**9)
    with pytest.raises(InvalidParameter, match="too small for a solve"):
        one_shot(
            WhitenedObjective(), given["rows"], [given["y"]], Logistic(), public,
            Randomness.from_seed(0),
        )  # fmt: skip
    assert public.ledger.charges == []


@pytest.mark.parametrize("cap", [4.4e298, 1e31, 1e-31])
def test_weight_cap_has_a_public_range(cap: float) -> None:
    """At 4.4e298 sums overflowed and NaN passed for a certificate: 371 sensitivities apart."""
    with pytest.raises(InvalidParameter, match="weight_bound must lie between 1e-30 and 1e"):
        facts("zero-out", size=N, weight_bound=cap).public(Logistic(), 4)


def test_the_largest_weight_cap_still_keeps_its_sensitivity() -> None:
    given = good()
    known = facts("zero-out", size=N, weight_bound=1e30, regularization=1e30)
    public = known.public(Logistic(), 4)
    tolerance = default_tolerance(Logistic(), public.for_solver())
    solved = []
    for last in (0.0, 1e30):
        weights = np.full(N, 1e30)
        weights[-1] = last
        solved.append(
            minimise(
                Logistic(), given["rows"], given["y"], regularization=1e30, weight_bound=1e30,
                sample_weight=weights, tolerance=tolerance,
            ).weights
        )  # fmt: skip
    moved = float(np.linalg.norm(solved[0] - solved[1]))
    assert 0.01 < moved <= sensitivity(public, tolerance / 1e30)


@pytest.mark.parametrize("trainer", TRAINERS[:2])
def test_norm_bound_has_no_unpaid_slack(trainer: object) -> None:
    def spoil(given: dict) -> None:
        given["rows"] = given["rows"] * (1.0 + 9e-7)

    attempt(trainer, spoil)


def test_float32_intercept_stays_within_the_declared_bound() -> None:
    rows, bound = with_intercept(np.zeros((1, 3), dtype=np.float32), 1e-9, 0.1)
    assert float(np.linalg.norm(np.asarray(rows))) <= bound

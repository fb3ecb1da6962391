"""Bad input is refused before anything is charged; rows above the bound are never believed."""

import numpy as np
import pytest
from one_shot_oracle import facts

from noisette.errors import NoisetteError
from noisette.losses import Logistic, Squared
from noisette.randomness import Randomness
from noisette.training import (
    objective_perturbation,
    output_perturbation,
    whitened_objective_perturbation,
    with_intercept,
)

WRONG = (AssertionError, pytest.fail.Exception)
TRAINERS = [output_perturbation, objective_perturbation, whitened_objective_perturbation]
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
    delta = 1e-6 if trainer is whitened_objective_perturbation else 0.0
    public = facts("replace-one", 1.0, delta, size=given["size"])
    with pytest.raises(NoisetteError):
        trainer(
            given["rows"], [given["y"]], Logistic(), public, Randomness.from_seed(0),
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
        output_perturbation(
            given["rows"], [given["y"]], Squared(1.0), public, Randomness.from_seed(0)
        )
    assert public.ledger.charges == []


@pytest.mark.parametrize("trainer", TRAINERS[:2])
def test_norm_bound_has_no_unpaid_slack(trainer: object) -> None:
    def spoil(given: dict) -> None:
        given["rows"] = given["rows"] * (1.0 + 9e-7)

    attempt(trainer, spoil)


def test_float32_intercept_stays_within_the_declared_bound() -> None:
    rows, bound = with_intercept(np.zeros((1, 3), dtype=np.float32), 1e-9, 0.1)
    assert float(np.linalg.norm(rows.astype(float))) <= bound

"""The project's own auditor against private networks, and mutants that it must find."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402

from noisette.audit import check_estimator  # noqa: E402
from noisette.core.mechanisms import Gaussian, LaplaceVector  # noqa: E402
from noisette.fitting.algorithms import passage  # noqa: E402
from noisette.nn import PrivateClassifier, starting, training  # noqa: E402
from noisette.nn.group import Group  # noqa: E402

torch.set_num_threads(1)

ATTACKS = ("exposed", "replay", "noise-law")
CASES: dict[str, dict[str, Any]] = {
    "poisson": {},
    "adaptive": {"clipping": "adaptive"},
    "automatic": {"clipping": "automatic", "adjacency": "add-remove", "population": 300},
    "banded": {"sampling": "cyclic", "band": 2},
}


class Padded(nn.Module):
    """Takes rows of any width up to 120, since the attacks use several; much noise in a step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(120, 2)

    def forward(self, rows: Any) -> Any:
        return self.layer(nn.functional.pad(rows, (0, 120 - rows.shape[1])))


def verdicts(*attacks: str, persons: bool = False, **options: Any) -> dict[str, str]:
    model = PrivateClassifier(Padded, 1.0, 1e-5, epochs=2, batch_size=75, **options)
    report = check_estimator(model, attacks=attacks or ATTACKS, persons=persons)
    return {finding.attack: finding.verdict for finding in report.findings}


@pytest.mark.parametrize("name", CASES)
def test_private_networks_pass(name: str) -> None:
    found = verdicts(**CASES[name])
    assert set(found.values()) == {"consistent"}, found


@pytest.mark.parametrize("name", ["poisson", "banded"])
def test_private_networks_pass_for_persons(name: str) -> None:
    found = verdicts("exposed", "replay", persons=True, **CASES[name])
    assert set(found.values()) == {"consistent"}, found


@pytest.mark.parametrize("persons", [False, True])
def test_balanced_networks_pass(persons: bool) -> None:
    found = verdicts("exposed", "replay", persons=persons, class_weight="balanced")
    assert set(found.values()) == {"consistent"}, found


@pytest.mark.slow
def test_counts_of_classes_with_too_little_noise_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert verdicts("noise-law", class_weight="balanced") == {"law of the noise": "consistent"}
    real = LaplaceVector.apply

    def less(self: Any, bounded: Any, unit: float, generator: Any) -> Any:
        noisy = real(self, bounded, unit, generator)
        return bounded.value + 0.8 * (noisy - bounded.value)

    monkeypatch.setattr(LaplaceVector, "apply", less)
    assert verdicts("noise-law", class_weight="balanced") == {"law of the noise": "violated"}


def unclipped(rule: Any, clip_norm: float, shares: Any, norms: Any) -> Any:
    return torch.ones_like(norms)


original_release, original_noise = passage.release, Gaussian.noise


def quiet(bounded: Any, permit: Any, randomness: Any, **options: Any) -> Any:
    noisy = original_release(bounded, permit, randomness, **options)
    return bounded.value + 0.9 * (noisy - bounded.value)


@pytest.mark.parametrize(
    ("where", "name", "mutant", "caught"),
    [
        (training, "_within", unclipped, "replay"),
        (Gaussian, "noise", lambda *given: 0.9 * original_noise(*given), "law of the noise"),
        (passage, "release", quiet, "replay"),
        (Group, "added", lambda self, work, size, dtype: 1.5 * work(), "replay"),
    ],
    ids=[
        "gradients are not clipped",
        "noise 10 % too small",
        "noise is taken off behind the door",
        "the sum is scaled after the bound",
    ],
)
def test_mutants_are_caught(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, mutant: Any, caught: str
) -> None:
    monkeypatch.setattr(where, name, mutant)
    found = verdicts()
    assert any(caught in attack and verdict == "violated" for attack, verdict in found.items()), (
        found
    )


real_fit = PrivateClassifier._fit
COUNTING = {
    "every row of a person weighs 1": (
        starting,
        "row_weights",
        lambda persons: torch.ones(len(persons.index), dtype=torch.float64),
        "replay",
        "replay",
    ),
    "rows are counted, persons are promised": (
        PrivateClassifier,
        "_fit",
        lambda self, X, y, levels, persons: real_fit(self, X, y, levels, None),
        "exposed",
        "exposed numbers",
    ),
}


@pytest.mark.parametrize("name", COUNTING)
def test_mutants_that_count_rows_are_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    where, what, mutant, attack, caught = COUNTING[name]
    monkeypatch.setattr(where, what, mutant)
    found = verdicts(attack, persons=True)
    assert any(caught in attack and verdict == "violated" for attack, verdict in found.items()), (
        found
    )

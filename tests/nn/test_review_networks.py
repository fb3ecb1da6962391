"""What a hostile reader of the networks tried: mixing losses, memories, kills, bad input."""

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from torch import nn  # noqa: E402

from noisette import mechanisms, sampling  # noqa: E402
from noisette.errors import InvalidData, InvalidParameter  # noqa: E402
from noisette.nn import PrivateClassifier, PrivateTraining  # noqa: E402
from noisette.plans import Repeat, Sampled  # noqa: E402
from noisette.privacy import Ledger  # noqa: E402

torch.set_num_threads(1)

# --- passes in a secret order, killed again and again ----------------------------------------


@pytest.mark.parametrize("kills", [0, 9])
@pytest.mark.parametrize(
    ("sampler", "relation"),
    [(sampling.RandomAllocation(10), "zero-out"), (sampling.Shuffle(10), "replace-one")],
)
def test_no_record_is_used_more_often_than_it_was_charged(
    tmp_path: Path, sampler: Any, relation: str, kills: int
) -> None:
    """RESUME: a run killed after each step once began a new pass every time (5 uses for 3)."""
    plan = Repeat(Sampled(mechanisms.Gaussian(2.0), sampler), 3).under(relation)
    uses: Counter[int] = Counter()
    draws = 0
    for stop in (*[1] * kills, None):
        module = nn.Linear(3, 1)
        ledger = Ledger.open(tmp_path / "ledger.db", 1e6, 1e-5, adjacency=relation)
        private = PrivateTraining(
            module, torch.optim.SGD(module.parameters(), lr=1.0), plan, size=60, delta=1e-5,
            ledger=ledger, checkpoint=tmp_path / "run.pt", save_every=1,
        )  # fmt: skip
        for done, rows in enumerate(private.batches()):
            uses.update(rows.tolist())
            draws += 1
            private.step(lambda m, x: m(x).sum(1), torch.ones(len(rows), 3))
            if done + 1 == stop:
                break
    assert draws <= plan.draws
    assert max(uses.values()) <= 3
    assert kills or set(uses.values()) == {3}


@pytest.mark.parametrize("broken", [{}, {"charge": "1"}, {"clipping": None}, {"module": 3}])
def test_a_checkpoint_with_wrong_parts_is_told(tmp_path: Path, broken: dict[str, Any]) -> None:
    whole = {
        "noisette_checkpoint": 2, "module": {}, "optimizer": {}, "average": None,
        "clipping": {"clip_norm": 1.0}, "charge": 1, "steps": 0, "seeded": False,
    }  # fmt: skip
    state = whole | broken if broken else {"noisette_checkpoint": 2}
    torch.save(state, tmp_path / "run.pt")
    module = nn.Linear(3, 1)
    plan = Repeat(Sampled(mechanisms.Gaussian(2.0), sampling.Poisson(0.5)), 2)
    with pytest.raises(InvalidParameter, match="damaged"):
        PrivateTraining(
            module, torch.optim.SGD(module.parameters(), lr=1.0), plan, size=9, delta=1e-5,
            ledger=Ledger.open(tmp_path / "ledger.db", 1e6, 1e-5), checkpoint=tmp_path / "run.pt",
        )  # fmt: skip


# --- the estimator ---------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(120, 4)), RNG.integers(0, 2, 120)


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(5, 3), nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.last(self.table(x).mean(1))


def classifier(**options: Any) -> PrivateClassifier:
    given = {"module": nn.Linear(4, 2), "epochs": 1, "batch_size": 30, "random_state": 0} | options
    return PrivateClassifier(**given)


def test_faults_of_module_augment_and_optimizer_cost_nothing() -> None:
    ledger = Ledger(100.0, 1e-3)
    strange = RNG.integers(0, 5, (120, 6))
    strange[7, 1] = 99  # in most batches nobody has it
    cases: list[tuple[dict[str, Any], Any, str]] = [
        ({"module": Tokens()}, strange, "these tokens; is one out of its range"),
        ({"module": 3}, X, "nn.Module"),
        ({"augment": 3}, X, "not callable"),
        ({"augment": lambda rows: rows[:, :2]}, X, "made-up"),
        ({"optimizer": "adam"}, X, "function of the parameters"),
        ({"optimizer": lambda p: 3}, X, "function of the parameters"),
    ]
    for options, rows, text in cases:
        with pytest.raises((InvalidParameter, InvalidData), match=text) as told:
            classifier(ledger=ledger, **options).fit(rows, Y)
        assert "99" not in str(told.value)
    assert ledger.charges == []


def test_a_checkpoint_is_not_shared_by_clones(tmp_path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", 100.0, 1e-3)
    model = classifier(ledger=ledger, checkpoint=tmp_path / "run.pt")
    with pytest.raises(InvalidParameter, match="cannot be cloned"):
        clone(model)
    assert ledger.charges == []


def test_predict_tells_what_is_wrong() -> None:
    with pytest.raises(NotFittedError):
        classifier().predict(X)
    with pytest.raises(InvalidData, match=r"shape \(2, 2\), but fit saw \(4,\)"):
        classifier().fit(X, Y).predict(X.reshape(-1, 2, 2))
    tokens = RNG.integers(0, 5, (120, 6))
    fitted = classifier(module=Tokens()).fit(tokens, Y)
    assert np.array_equal(fitted.predict(tokens), fitted.predict(tokens.astype(float)))
    with pytest.raises(InvalidData, match="whole numbers"):
        fitted.predict(tokens + 0.5)
    back = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(back.predict(tokens), fitted.predict(tokens))
    shown = set(vars(fitted)) - set(fitted.get_params())
    assert shown == {"module_", "classes_", "n_features_in_", "privacy_", "_dtype", "_shape"}

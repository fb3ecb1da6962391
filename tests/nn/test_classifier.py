"""`PrivateClassifier` as a scikit-learn user sees it."""

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402
from two_ranks import start  # noqa: E402

from noisette import accounting  # noqa: E402
from noisette.core.ledger import Ledger  # noqa: E402
from noisette.errors import InvalidData, InvalidParameter, NoisetteError, Unproven  # noqa: E402
from noisette.nn import (  # noqa: E402
    Adaptive,
    PrivateClassifier,
    make_level_plan,
)
from noisette.nn.arrays import as_rows, as_tensor  # noqa: E402

torch.set_num_threads(1)

RNG = np.random.default_rng(0)
N, D = 600, 6
X = RNG.normal(size=(N, D))
Y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")


def module() -> nn.Module:
    return nn.Sequential(nn.Linear(D, 8), nn.Tanh(), nn.Linear(8, 2))


def estimator(**options: Any) -> PrivateClassifier:
    return PrivateClassifier(module, **({"epochs": 3, "batch_size": 100} | options))


def test_it_learns_and_states_its_guarantee() -> None:
    fitted = estimator(epsilon=8.0, epochs=10, random_state=0).fit(X, Y)
    assert fitted.score(X, Y) > 0.8
    assert set(fitted.predict(X)) <= {"yes", "no"}
    chances = fitted.predict_proba(X)
    assert chances.shape == (N, 2)
    assert np.allclose(chances.sum(1), 1.0)
    assert (fitted.privacy_.epsilon, fitted.privacy_.delta) == (8.0, 1e-5)
    assert fitted.privacy_.plan.draws == 60
    spent = accounting.epsilon(fitted.privacy_.plan, delta=1e-5, adjacency="replace-one")
    assert spent <= 8.0
    text = fitted.privacy_.statement()
    assert "the number of records, 600" in text
    assert "NN-CLIP" in text
    assert "read off y" in text


def test_a_seed_repeats_a_fit_and_no_seed_does_not() -> None:
    def weights(seed: int | None) -> np.ndarray:
        fitted = estimator(random_state=seed).fit(X, Y)
        assert fitted.privacy_.seeded == (seed is not None)
        return np.concatenate([p.detach().numpy().ravel() for p in fitted.module_.parameters()])

    assert np.array_equal(weights(1), weights(1))
    assert not np.array_equal(weights(1), weights(2))
    state = torch.random.get_rng_state()
    assert not np.array_equal(weights(None), weights(None))
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    "rows",
    [
        X.astype(np.float32),
        pd.DataFrame(X, columns=list("abcdef")),
        torch.tensor(X),
        RNG.integers(0, 5, size=(N, D)),
        RNG.integers(0, 5, size=(N, D)).astype(np.uint8),
    ],
    ids=["float32", "DataFrame", "tensor", "int64", "uint8"],
)
def test_kinds_of_rows(rows: Any) -> None:
    fitted = estimator().fit(rows, Y)
    assert fitted.predict(rows).shape == (N,)


def test_images_and_tokens() -> None:
    image = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 4 * 4, 3))
    labels = RNG.integers(0, 3, N)
    PrivateClassifier(image, epochs=1).fit(RNG.normal(size=(N, 1, 6, 6)), labels)
    words = nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.Linear(20, 3))
    tokens = RNG.integers(0, 50, size=(N, 5))
    fitted = PrivateClassifier(words, epochs=1, sampling="random-allocation", adjacency="zero-out")
    assert fitted.fit(tokens, labels).predict_proba(tokens).shape == (N, 3)


def test_the_given_module_and_rule_stay_as_they_are() -> None:
    given, rule = module(), Adaptive(0.5)
    before = [p.detach().clone() for p in given.parameters()]
    PrivateClassifier(given, epochs=1, clipping=rule, epsilon=1.0).fit(X, Y)
    after = list(given.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert rule.clip_norm == 0.5


def test_options_run() -> None:
    for options in (
        {"clipping": "automatic", "averaging": 0.9},
        {"clipping": "adaptive", "averaging": "tail"},
        {"sampling": "cyclic", "band": 4},
        {"sampling": "without-replacement", "micro_batch": 7},
        {"optimizer": lambda p: torch.optim.Adam(p, 1e-2)},
        {"augment": lambda rows: rows + 0.1, "copies": 3},
        {"sampling": "full", "epochs": 2},
        {"adjacency": "add-remove", "population": 650, "classes": ["no", "yes"]},
    ):
        fitted = estimator(**options).fit(X, Y)
        assert fitted.privacy_.epsilon == 3.0
        assert fitted.privacy_.epsilon_at(1e-5) <= 3.0


def test_scikit_learn_tools() -> None:
    ledger = Ledger(100.0, 1e-3)
    base = estimator(ledger=ledger, epochs=1)
    twin = clone(base)
    assert twin.ledger is ledger
    assert twin.get_params()["epochs"] == 1
    scores = cross_val_score(base, X, Y, cv=2)
    assert scores.shape == (2,)
    assert len(ledger.charges) == 2
    fitted = PrivateClassifier(module(), epochs=1, ledger=ledger).fit(X, Y)
    back = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(back.predict(X), fitted.predict(X))
    assert back.privacy_ == fitted.privacy_
    with pytest.raises(InvalidParameter, match="leaves its ledger behind"):
        back.fit(X, Y)


def test_mistakes_cost_nothing_and_say_why() -> None:
    ledger = Ledger(100.0, 1e-3)
    bad_rows = X.copy()
    bad_rows[3, 2] = np.nan
    cases: list[tuple[dict[str, Any], Any, Any, str]] = [
        ({"epsilon": 0.0}, X, Y, "epsilon"),
        ({"delta": 0.0}, X, Y, "delta"),
        ({"delta": 1.0}, X, Y, "delta"),
        ({"epochs": 0}, X, Y, "epochs"),
        ({"batch_size": 0}, X, Y, "batch_size"),
        ({"batch_size": "big"}, X, Y, "batch_size"),
        ({"learning_rate": -1.0}, X, Y, "learning_rate"),
        ({"sampling": "shuffled"}, X, Y, "sampling"),
        ({"clipping": "hard"}, X, Y, "clipping"),
        ({"copies": 2}, X, Y, "augment"),
        ({"adjacency": "add-remove"}, X, Y, "adjacency|add-remove"),
        ({}, bad_rows, Y, "NaN"),
        ({}, X[:0], Y[:0], "empty"),
        ({}, X[:, 0], Y, "two axes"),
        ({}, X, Y[:-1], "one label for each"),
        ({}, X, np.full(N, "yes"), "single class"),
        ({}, sparse.csr_matrix(X), Y, "sparse"),
        ({}, X.astype(object) * 1j, Y, "numeric|real"),
        ({}, X[:, :4], Y, "does not take rows"),
        ({}, X, RNG.integers(0, 3, N), "one score for each of the 3"),
        ({"module": nn.Sequential(nn.Linear(D, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))}, X, Y,
         "BatchNorm1d"),
        ({"module": nn.Flatten}, X, Y, "score|no parameter"),
        ({"module": lambda: 3}, X, Y, "nn.Module"),
    ]  # fmt: skip
    for options, rows, labels, text in cases:
        options = {"module": module, "epochs": 2, "batch_size": 50, "ledger": ledger} | options
        model = PrivateClassifier(**options)
        with pytest.raises((InvalidParameter, InvalidData, Unproven, ValueError), match=text):
            model.fit(rows, labels)
        assert not hasattr(model, "module_")
    assert ledger.charges == []


def test_a_small_table_is_one_batch() -> None:
    fitted = estimator(batch_size=10_000).fit(X[:20], Y[:20])
    assert fitted.privacy_.plan.draws == 3


# --- personal levels -----------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out"])
def test_every_level_gets_its_epsilon(adjacency: str) -> None:
    levels = [(0.5, 300), (1.0, 200), (4.0, 100)]
    plan = make_level_plan(levels, delta=1e-5, batch_size=60, steps=100, adjacency=adjacency)
    parts = list(plan.alternatives())
    found = [accounting.epsilon(part, delta=1e-5, adjacency=adjacency) for part in parts]
    assert found == pytest.approx([0.5, 1.0, 4.0], rel=1e-3)
    assert all(ours <= level for ours, (level, _) in zip(found, levels, strict=True))
    rates = [leaf.sampler.rate for leaf, _ in plan.leaves()]  # type: ignore[attr-defined]
    assert sum(q * n for q, (_, n) in zip(rates, levels, strict=True)) == pytest.approx(
        60, rel=0.01
    )


def test_people_join_at_the_rate_of_their_level() -> None:
    levels = np.where(np.arange(N) < 300, 0.5, 3.0)
    seen = np.zeros(N)
    fitted = estimator(epochs=90, random_state=0)
    import noisette.nn.training as room

    class Counting(room.PrivateTraining):
        def step(self, losses: Any, batch: Any) -> None:
            seen[self._queue.open] += 1
            super().step(losses, batch)

    original = sys.modules["noisette.nn.classifier"].PrivateTraining  # type: ignore[attr-defined]
    sys.modules["noisette.nn.classifier"].PrivateTraining = Counting  # type: ignore[attr-defined]
    try:
        fitted.fit(X, Y, sample_epsilon=levels)
    finally:
        sys.modules["noisette.nn.classifier"].PrivateTraining = original  # type: ignore[attr-defined]
    plan = fitted.privacy_.plan
    steps = 540
    rates = [leaf.sampler.rate for leaf, _ in plan.leaves()]  # type: ignore[attr-defined]
    for rate, group in zip(rates, (seen[:300], seen[300:]), strict=True):
        expected = rate * steps * 300
        assert abs(group.sum() - expected) < 5.0 * np.sqrt(expected)
    assert "Epsilon of each group, in order: 0.5, 3." in fitted.privacy_.statement()


def test_levels_are_checked() -> None:
    for levels, text in (
        (np.full(N, 4.0), "epsilon"),
        (np.zeros(N), "above 0"),
        (np.linspace(0.1, 3.0, N), "at most 32"),
        (np.ones(3), "one for each row"),
    ):
        with pytest.raises(InvalidData, match=text):
            estimator().fit(X, Y, sample_epsilon=levels)
    with pytest.raises(InvalidParameter, match="poisson"):
        estimator(sampling="cyclic").fit(X, Y, sample_epsilon=np.ones(N))
    with pytest.raises(Unproven, match="add-remove"):
        make_level_plan([(1.0, 5)], delta=1e-5, batch_size=2, steps=3, adjacency="add-remove")
    same = estimator().fit(X, Y, sample_epsilon=np.full(N, 1.0))
    assert same.privacy_.epsilon_at(1e-5) <= 1.0


# --- the extra -----------------------------------------------------------------------------------


def test_a_missing_extra_is_one_sentence() -> None:
    code = """
        import sys
        sys.modules["torch"] = None
        import noisette
        try:
            noisette.nn
        except noisette.errors.MissingExtra as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "noisette.nn needs PyTorch; pip install 'noisette[nn]'."


def test_a_killed_fit_goes_on(tmp_path: Path) -> None:
    code = f"""
        import os, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_classifier as t
        from noisette.nn import training
        from noisette.core.ledger import Ledger
        ledger = Ledger.open({str(tmp_path / "ledger.db")!r}, 3.0, 1e-5)
        step = training.PrivateTraining.step
        def dying(self, *args):
            step(self, *args)
            if self.steps_done == 40:
                os._exit(9)
        training.PrivateTraining.step = dying
        t.estimator(epochs=10, ledger=ledger, checkpoint={str(tmp_path / "run.pt")!r}).fit(t.X, t.Y)
    """
    killed = start(textwrap.dedent(code), [], tmp_path / "said")
    killed.join(timeout=400)
    assert killed.exitcode == 9
    ledger = Ledger.open(tmp_path / "ledger.db")
    assert len(ledger.charges) == 1
    fitted = estimator(epochs=10, ledger=ledger, checkpoint=tmp_path / "run.pt").fit(X, Y)
    assert len(ledger.charges) == 1
    assert fitted.privacy_.epsilon == 3.0
    assert fitted.privacy_.plan.draws == 60


# --- faults that cost nothing --------------------------------------------------------------------

FOUR, TWO = RNG.normal(size=(120, 4)), RNG.integers(0, 2, 120)


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(5, 3), nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.last(self.table(x).mean(1))


class Centred(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.last(x - x.mean(0).detach())


def classifier(**options: Any) -> PrivateClassifier:
    given = {"module": nn.Linear(4, 2), "epochs": 1, "batch_size": 30, "random_state": 0} | options
    return PrivateClassifier(**given)


def test_faults_of_module_augment_and_optimizer_cost_nothing() -> None:
    ledger = Ledger(100.0, 1e-3)
    strange = RNG.integers(0, 5, (120, 6))
    strange[7, 1] = 99  # in most batches nobody has it
    cases: list[tuple[dict[str, Any], Any, str]] = [
        ({"module": Centred()}, FOUR, "mixes records"),
        ({"module": Tokens()}, strange, "these tokens; is one out of its range"),
        ({"module": 3}, FOUR, "nn.Module"),
        ({"augment": 3}, FOUR, "not callable"),
        ({"augment": lambda rows: rows[:, :2]}, FOUR, "invented"),
        ({"optimizer": "adam"}, FOUR, "function of the parameters"),
        ({"optimizer": lambda p: 3}, FOUR, "function of the parameters"),
    ]
    for options, rows, text in cases:
        with pytest.raises((InvalidParameter, InvalidData), match=text) as told:
            classifier(ledger=ledger, **options).fit(rows, TWO)
        assert "99" not in str(told.value)
    assert ledger.charges == []


def test_a_checkpoint_is_not_shared_by_clones(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", 100.0, 1e-3)
    model = classifier(ledger=ledger, checkpoint=tmp_path / "run.pt")
    with pytest.raises(InvalidParameter, match="cannot be cloned"):
        clone(model)
    assert ledger.charges == []


class Hashed(nn.Module):
    """Takes tokens of any size, and numbers as well."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(x.long() % 5).mean(1)


def test_one_cell_of_a_list_changes_no_other_token() -> None:
    large = [2**24 + 1, 2**53 + 1]
    plain = [[1, 2], *([large] * 59), *([[3, 4]] * 60)]
    other = [[1, 2.0], *plain[1:]]
    settings = {"module": Hashed(), "epochs": 1, "random_state": 0}
    first, second = (classifier(**settings).fit(X, TWO) for X in (plain, other))
    assert np.array_equal(first.predict_proba(plain), second.predict_proba(other))
    assert torch.equal(as_tensor(as_rows(other, None)[0], torch.int64)[1], torch.tensor(large))
    told = as_rows(np.array(plain), None)[0]
    assert torch.equal(
        as_tensor(told, torch.int64), as_tensor(as_rows(other, None)[0], torch.int64)
    )
    for wrong in ([[1, 2.5]], [[2**63, 1]]):
        with pytest.raises(InvalidData, match="must hold whole numbers"):
            second.predict(wrong)


def test_numbers_in_a_list() -> None:
    X = RNG.normal(size=(120, 4))
    array, _ = as_rows(X.tolist(), None)
    assert torch.equal(as_tensor(array, torch.float32), torch.from_numpy(X).float())
    assert as_rows([torch.ones(3), np.zeros(3)], None)[0].shape == (2, 3)
    assert classifier().fit(X.tolist(), TWO).predict(X.tolist()).shape == (120,)
    for wrong in ([["1", "2"]], [[1, None]], [[1, 10**400]], [[1], [1, 2]], "ab"):
        with pytest.raises(InvalidData):
            as_rows(wrong, None)


def test_predict_tells_what_is_wrong() -> None:
    with pytest.raises(NotFittedError):
        classifier().predict(FOUR)
    with pytest.raises(InvalidData, match=r"shape \(2, 2\), but fit saw \(4,\)"):
        classifier().fit(FOUR, TWO).predict(FOUR.reshape(-1, 2, 2))
    tokens = RNG.integers(0, 5, (120, 6))
    fitted = classifier(module=Tokens()).fit(tokens, TWO)
    assert np.array_equal(fitted.predict(tokens), fitted.predict(tokens.astype(float)))
    with pytest.raises(InvalidData, match="whole numbers"):
        fitted.predict(tokens + 0.5)
    back = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(back.predict(tokens), fitted.predict(tokens))
    shown = set(vars(fitted)) - set(fitted.get_params())
    # the factors are those of class_weight, which is public
    public = {"module_", "classes_", "n_features_in_", "privacy_", "_dtype", "_shape", "_factors"}
    assert shown == public


class Output(nn.Module):
    """Like a Hugging Face model: the scores are one entry of a dict."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.layer, self.kind = nn.Linear(4, 2), kind

    def forward(self, x: Any) -> Any:
        return self.kind(logits=self.layer(x)) if self.kind is dict else (self.layer(x), None)


@pytest.mark.parametrize(("kind", "text"), [(dict, "a dict"), (tuple, "a tuple")])
def test_a_module_that_returns_no_tensor_is_told(kind: Any, text: str) -> None:
    """It was told that the module does not take such rows."""
    ledger = Ledger(100.0, 1e-3)
    with pytest.raises(InvalidParameter, match=f"the module returned {text}.*output.logits"):
        classifier(module=Output(kind), ledger=ledger).fit(FOUR, TWO)
    assert ledger.charges == []


# --- augmentation ---------------------------------------------------------------------------


def test_each_record_has_its_own_variants() -> None:
    """What runs for all records together is what runs for each of them alone."""
    module = nn.Linear(4, 2)
    rows, labels = torch.tensor(FOUR[:5]).float(), torch.tensor(TWO[:5])
    scaled = classifier(augment=lambda rows: 2.0 * rows + 1.0, copies=3)
    together = scaled._losses(module, (rows, labels))
    alone = torch.vmap(lambda x, y: scaled._losses(module, (x[None], y[None])))(rows, labels)
    assert together.shape == (15,)
    assert torch.allclose(together.view(5, 3), alone, atol=1e-6)
    noisy = classifier(augment=lambda rows: rows + torch.randn_like(rows), copies=3)
    found = torch.vmap(
        lambda x, y: noisy._losses(module, (x[None], y[None])), randomness="different"
    )(rows, labels)
    assert len(found.unique()) == 15


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (lambda rows: rows.numpy(), "reads a record's values out of torch"),
        (lambda rows: rows[:0], "augment"),
        (lambda rows: torch.cat([rows, rows]), "augment"),
        (lambda rows: 3, "augment"),
    ],
)
def test_an_augmentation_returns_a_row_for_each_row(found: Any, why: str) -> None:
    ledger = Ledger(100.0, 1e-3)
    with pytest.raises(InvalidParameter, match=why):
        classifier(augment=found, ledger=ledger).fit(FOUR, TWO)
    assert ledger.charges == []


def test_the_estimator_knows_whose_rows_it_takes() -> None:
    statement = classifier().fit(FOUR, TWO).privacy_.statement()
    assert "rows of each batch are taken as given" not in statement
    assert "taken as given" in statement  # the matrix, as for every estimator


@pytest.mark.parametrize("sampling", ["poisson", "cyclic", "random-allocation"])
def test_the_plan_is_known_before_any_data(sampling: str) -> None:
    """PrivateClassifier had no plan(n, d); what it shows is what fit charges."""
    ledger = Ledger(10.0, 1e-3)
    model = PrivateClassifier(
        nn.Linear(3, 2), epsilon=2.0, epochs=2, batch_size=20, sampling=sampling, ledger=ledger,
        random_state=0,
    )  # fmt: skip
    shown = model.plan(n=100, d=3)
    assert ledger.charges == []
    assert shown.algorithm == "network"
    assert 1.9 < shown.epsilon <= 2.0
    rows = np.random.default_rng(0).normal(size=(100, 3))
    model.fit(rows, (rows[:, 0] > 0).astype(int))
    assert ledger.charges[0].plan == shown.plan.to_json()
    assert (ledger.charges[0].label, ledger.charges[0].model) == ("PrivateClassifier.fit", "Linear")
    noise = shown.notes[0].split("about ")[1].split(";")[0]
    z = next(iter(shown.plan.leaves()))[0].mechanism.noise_multiplier
    assert float(noise) == pytest.approx(z * 1.0 / 20.0, rel=0.06)
    assert "MB of memory" in str(shown)


def test_a_plan_refuses_what_fit_refuses() -> None:
    with pytest.raises(InvalidParameter, match="population"):
        PrivateClassifier(nn.Linear(3, 2), adjacency="add-remove").plan(100)
    with pytest.raises(InvalidParameter, match="module must be"):
        PrivateClassifier("net").plan(10_000)
    with pytest.raises(NoisetteError, match="cyclic"):
        PrivateClassifier(nn.Linear(3, 2), band=3).plan(10_000)


def test_public_class_weights_move_the_answers_and_others_are_refused() -> None:
    from noisette import evaluate

    rare = np.where(X[:, 0] > 0.8, "yes", "no")
    shares = []
    for weight in (None, {"yes": 20.0}):
        model = PrivateClassifier(
            module, epsilon=8.0, epochs=5, class_weight=weight, random_state=0, delta=1e-4
        ).fit(X, rare)
        shares.append(float((model.predict(X) == "yes").mean()))
        assert ("CLASS-WEIGHT" in model.privacy_.proofs) == (weight is not None)
    assert shares[1] > shares[0] + 0.04
    assert evaluate(model, X, rare, epsilon=5.0, random_state=0).auc.value > 0.7
    with pytest.raises(InvalidParameter, match="none of the classes"):
        PrivateClassifier(module, class_weight={"maybe": 1.0}, delta=1e-4).fit(X, rare)

"""Persons with several rows: drawn whole, weighed together, counted once."""

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from torch import nn  # noqa: E402
from two_ranks import run_ranks  # noqa: E402

from noisette import Persons, mechanisms, sampling  # noqa: E402
from noisette.core.adjacency import Adjacency  # noqa: E402
from noisette.core.ledger import Ledger  # noqa: E402
from noisette.core.plans import Plan, Repeat, Sampled  # noqa: E402
from noisette.errors import InvalidData, InvalidParameter, Unproven  # noqa: E402
from noisette.fitting.algorithms import passage  # noqa: E402
from noisette.nn import (  # noqa: E402
    Adaptive,
    PrivateClassifier,
    PrivateTraining,
    make_level_plan,
    make_plan,
)
from noisette.nn.batches import check_ranks  # noqa: E402
from noisette.nn.clipping import Flat  # noqa: E402
from noisette.nn.gradients import rounding  # noqa: E402

torch.set_num_threads(1)

N, D, C = 24, 5, 0.7
SIZES = np.array([1, 2, 3, 40] * (N // 4))
OWNER = np.random.default_rng(3).permutation(np.repeat(np.arange(N), SIZES))
IDS = np.array([f"person {k}" for k in OWNER])
ROWS = torch.from_numpy(np.random.default_rng(4).normal(size=(len(IDS), D)))
SAMPLERS: dict[str, tuple[Any, str]] = {
    "poisson": (sampling.Poisson(0.3), "replace-one"),
    "poisson, add-remove": (sampling.Poisson(0.3), "add-remove"),
    "random-allocation": (sampling.RandomAllocation(4), "zero-out"),
    "without-replacement": (sampling.WithoutReplacement(6, N), "replace-one"),
    "cyclic": (sampling.Cyclic(4), "replace-one"),
    "shuffle": (sampling.Shuffle(4), "zero-out"),
    "full": (sampling.FullBatch(), "replace-one"),
}


def squares(module: Any, batch: Any) -> Any:
    return (module(batch) ** 2).sum(1)


def private(name: str = "full", uses: int = 4, **options: Any) -> PrivateTraining:
    sampler, relation = SAMPLERS[name]
    plan = Repeat(Sampled(mechanisms.Gaussian(2.0), sampler), uses).under(relation)
    return with_plan(plan, population=N, **options)


def with_plan(plan: Plan, **options: Any) -> PrivateTraining:
    torch.manual_seed(0)
    module = nn.Linear(D, 2).double()
    given: dict[str, Any] = {"size": N, "delta": 1e-5, "persons": IDS, "clip_norm": C} | options
    return PrivateTraining(module, torch.optim.SGD(module.parameters(), lr=0.1), plan, **given)


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What came to the door, before its noise."""
    seen, real = [], passage.release

    def door(bounded: Any, *args: Any, **options: Any) -> Any:
        seen.append(bounded)
        return real(bounded, *args, **options)

    monkeypatch.setattr(passage, "release", door)
    return seen


def by_hand(module: nn.Module, persons: set[int]) -> Any:
    """The sum of means of clipped gradients, each from a batch of one."""
    total = 0.0
    for person in persons:
        rows = np.flatnonzero(person == OWNER)
        for row in rows:
            module.zero_grad()
            squares(module, ROWS[[row]]).sum().backward()
            found = torch.cat([p.grad.flatten() for p in module.parameters()])
            total = total + found * min(1.0, C / float(found.norm())) / len(rows)
    module.zero_grad()
    return total


class TwoRanks:
    """Ranks that come one after the other, and whose identifiers travel as they do."""

    ranks = 2

    def __init__(self) -> None:
        self.each: list[Any] = []

    def gathered(self, work: Any) -> Any:
        self.each.append(pickle.loads(pickle.dumps(work())))
        return self.each

    def have(self, persons: Any) -> None:
        check_ranks(persons, self)  # type: ignore[arg-type]


DAYS = np.array(["2020-02-01", "2020-02-02"], dtype="M8[D]")


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ([7, 8], [7.0]),
        ([7, 8], pd.array([7], dtype="Int64")),
        ([7, 8], pa.chunked_array([[7, None]])),
        (pa.array(["a"]), ["a"]),
        (DAYS.astype("M8[ns]"), DAYS.astype("M8[s]")[:1]),
        (DAYS.astype("M8[ns]"), [pd.Timestamp("2020-02-02"), pd.Timestamp("2020-02-03")]),
        ([True], np.array([True, False])),
    ],
    ids=str,
)
def test_a_person_is_known_on_another_rank_however_its_identifiers_are_kept(
    here: Any, there: Any
) -> None:
    ranks = TwoRanks()
    ranks.have(there)
    with pytest.raises(InvalidData, match="put all rows of a person on one rank"):
        ranks.have(here)


def test_other_persons_on_another_rank_are_others() -> None:
    for here, there in (([7, 8], pa.array([9])), ([True], [False, 1]), (DAYS[:1], DAYS[1:])):
        ranks = TwoRanks()
        ranks.have(there)
        ranks.have(here)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_step_is_the_sum_of_the_means_of_whole_persons(name: str, sums: list[Any]) -> None:
    run, counts = private(name), []
    for rows in run.batches():
        drawn = set(OWNER[rows].tolist())
        assert sorted(rows) == np.flatnonzero(np.isin(OWNER, list(drawn))).tolist()
        counts.append(len(drawn))
        expected = by_hand(run.module, drawn)
        run.step(squares, ROWS[rows])
        assert sums[-1].contribution == C
        np.testing.assert_allclose(sums[-1].value, expected, rtol=1e-6, atol=1e-6)
    sampler = SAMPLERS[name][0]
    assert run.normaliser == sampler.normaliser(N)  # persons, not rows
    if name in ("cyclic", "shuffle", "without-replacement"):
        assert set(counts) == {6}
    elif name != "full":
        assert len(set(counts)) > 1
        assert abs(np.mean(counts) - run.normaliser) < 4.0 * np.sqrt(7.2 / len(counts))


@pytest.mark.parametrize("micro_batch", [None, 7])
@pytest.mark.parametrize("clipping", ["flat", "automatic", "adaptive"])
def test_forty_rows_in_one_direction_move_no_more_than_one(
    clipping: str, micro_batch: int | None, sums: list[Any]
) -> None:
    """The largest contribution is reached: a weight or bound wrong by 10 % shows."""
    crowd = np.flatnonzero(SIZES[OWNER] == 40)
    one = crowd[OWNER[crowd] == OWNER[crowd[0]]]
    rows = torch.zeros(len(IDS), D, dtype=torch.float64)
    rows[one, 0] = 1e6
    run = private(clipping=clipping, micro_batch=micro_batch)
    for chosen in run.batches():
        run.step(lambda module, x: module(x).sum(1) * (x[:, 0] > 0), rows[chosen])
        break
    value, bound = sums[-1].value, sums[-1].contribution
    if clipping == "adaptive":  # everybody else counts as within C
        a, k = Adaptive(C)._weights(run.normaliser, 2.0)
        assert value[-1] == pytest.approx(k * (N - 2) / 2.0, rel=1e-12)
        assert 0.999 * a < np.linalg.norm(value[:-1]) <= a
    else:
        assert 0.999 * bound < np.linalg.norm(value) <= bound


@pytest.mark.parametrize("norm", [0.1, C, 3.0, 1e9])
def test_the_factors_of_a_person_stay_within_the_bound_exactly(norm: float) -> None:
    for count in (1, 2, 3, 7, 40, 999, 12345):
        weights = torch.from_numpy(Persons.of(np.zeros(count, dtype=int)).weights)
        norms = torch.full((count,), norm, dtype=torch.float64)
        cut = rounding.shared(Flat(C).factors(norms), weights)
        assert cut.dtype == torch.float32
        total = sum((Fraction(float(each)) for each in cut), Fraction(0)) * Fraction(norm)
        assert min(C, norm) * (1 - 1e-5) < total <= Fraction(C) * (1 - Fraction(1, 2**24))


def test_factors_too_small_for_single_precision_are_nothing() -> None:
    tiny = torch.tensor([2.0**-119], dtype=torch.float32)
    assert rounding.shared(tiny, torch.tensor([0.25], dtype=torch.float64)).item() == 0.0


def test_more_rows_than_the_theorem_allows_add_nothing() -> None:
    from noisette.nn.batches import MOST_ROWS, row_weights

    owner = np.r_[np.zeros(MOST_ROWS + 1, dtype=int), np.ones(MOST_ROWS, dtype=int)]
    weights = row_weights(Persons.of(owner))
    assert weights is not None
    assert not weights[: MOST_ROWS + 1].any()
    assert weights[MOST_ROWS + 1 :].sum().item() == pytest.approx(1.0, rel=1e-9)


def test_one_row_each_is_training_on_records() -> None:
    found = []
    for persons in (None, [f"{k}" for k in range(N)]):
        run = private("poisson", persons=persons, random_state=1)
        for rows in run.batches():
            run.step(squares, ROWS[rows])
        found.append(torch.cat([p.detach().flatten() for p in run.module.parameters()]))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


def test_batches_that_follow_an_order_follow_a_secret_one() -> None:
    """Otherwise the rows of one person would move others from batch to batch."""
    firsts = []
    for seed in range(12):
        run = private("cyclic", uses=2, random_state=seed)
        batches = []
        for rows in run.batches():
            batches.append(frozenset(OWNER[rows].tolist()))
            run.step(squares, ROWS[rows])
        assert batches[:4] == batches[4:]  # one order for the whole run
        firsts.append(batches[0])
    assert len(set(firsts)) > 6
    assert len(frozenset.union(*firsts)) == N


def test_every_rank_holds_whole_persons(tmp_path: Path) -> None:
    script = """
ids = ["ann", "bob", "ann"] if rank == 0 else ["cy", "bob", "cy"]
refused(sampling.Poisson(0.5), 2, 2, persons=ids)
from noisette import Persons
refused(sampling.Poisson(0.5), 2, 1, persons=Persons.of([rank, rank]))
refused(sampling.Poisson(0.5), 2, 1, persons=[0, 0] if rank else ["0"])
refused(sampling.Poisson(0.5), 2, 2, persons=[0, 1] if rank else None)
for sampler in (sampling.Cyclic(2), sampling.FullBatch()):
    run = private(sampler, 2, 2, persons=[10 * rank, 10 * rank + 1, 10 * rank])
    counts = []
    for rows in run.batches():
        x = torch.zeros(len(rows), 5)
        x[:, 1] = 9.0
        run.step(lambda module, x: module(x).sum(1), x)
        counts.append(len(rows))
    print(sum(counts), run.normaliser)
print(max(worst))
"""
    ranks = run_ranks(script, tmp_path, quiet=True)
    for lines in ranks:
        assert "put all rows of a person on one rank" in lines[0]
        assert lines[1].startswith("refused")
        assert "put all rows of a person on one rank" in lines[2]
        assert "do not agree on the presence and weights of persons" in lines[3]
        assert lines[4:6] == ["6 2.0", "6 4.0"]
    # all four persons, of six rows, push as one: 6 if rows were counted
    assert 3.999 < float(ranks[0][-1]) <= 4.0


def test_what_does_not_fit_is_told_without_a_number_of_rows(tmp_path: Path) -> None:
    plan = make_level_plan([(1.0, 12), (3.0, 12)], delta=1e-5, batch_size=6, steps=2)
    groups = OWNER % 2
    ledger = Ledger.open(tmp_path / "ledger", epsilon=4.0, delta=1e-5)
    wrong: list[tuple[Any, Any, dict[str, Any]]] = [
        (InvalidData, None, {"size": len(IDS)}),
        (InvalidData, None, {"persons": IDS[:, None]}),
        (InvalidData, None, {"persons": [None, *IDS[1:]]}),
        (Unproven, None, {"record_ids": np.arange(N)}),
        (InvalidData, plan, {"groups": groups[:N]}),
        (InvalidData, plan, {"groups": np.arange(len(IDS)) % 2}),
        (Unproven, plan, {"groups": groups, "checkpoint": tmp_path / "run.pt", "ledger": ledger}),
    ]
    for kind, chosen, options in wrong:
        with pytest.raises(kind) as told:
            with_plan(chosen, **options) if chosen is not None else private(**options)
        assert str(len(IDS)) not in str(told.value)
        assert "person 1" not in str(told.value)
    assert ledger.count == 0
    training = private()
    next(training.batches())
    with pytest.raises(InvalidData) as told:
        training.step(squares, ROWS[:-1])
    assert str(len(IDS)) not in str(told.value)
    with pytest.raises(InvalidData):
        training.loader(ROWS[:N])


def test_levels_are_those_of_persons(sums: list[Any]) -> None:
    plan = make_level_plan([(0.5, 12), (4.0, 12)], delta=1e-5, batch_size=6, steps=60)
    run, often = with_plan(plan, groups=OWNER % 2, random_state=0), np.zeros(2)
    for rows in run.batches():
        drawn = np.unique(OWNER[rows])
        often += [np.sum(drawn % 2 == 0), np.sum(drawn % 2 == 1)]
        run.step(squares, ROWS[rows])
    rates = [part.plan.sampler.rate for part in plan.plans]
    assert run.normaliser == pytest.approx(12 * sum(rates))
    for found, rate in zip(often / 60 / 12, rates, strict=True):
        assert abs(found - rate) < 4.0 * np.sqrt(rate / 720)


def test_a_run_of_persons_goes_on_as_such_only(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger", epsilon=90.0, delta=1e-5)
    options: dict[str, Any] = {"ledger": ledger, "checkpoint": (tmp_path / "run.pt", 1)}
    run = private("cyclic", **options)
    for rows in run.batches():
        run.step(squares, ROWS[rows])
        if run.steps_done == 2:
            break
    text = (tmp_path / "run.pt").read_bytes() + (tmp_path / "ledger").read_bytes()
    assert b"person 1" not in text
    for changed in (
        {"persons": None},
        {"persons": Persons.of(IDS, full=3)},
        {"persons": IDS[OWNER > 0], "size": N - 1},
    ):
        with pytest.raises(InvalidParameter, match="other public facts"):
            private("cyclic", **options | changed)
    rest = private("cyclic", **options)
    sizes = []
    for rows in rest.batches():
        sizes.append(len(rows))
        rest.step(squares, ROWS[rows])
    assert rest.steps_done == 16
    assert sizes[:2] == [0, 0]  # the started pass had another order
    assert min(sizes[2:]) > 0
    assert rest.guarantee().unit == "person"
    assert ledger.charges[-1].unit == "person"


def test_the_statement_is_about_persons_and_silent_about_rows() -> None:
    for name in ("poisson", "cyclic"):
        run = private(name)
        for batch in run.loader(ROWS):
            run.step(squares, batch)
        found = run.guarantee()
        text = found.statement()
        assert "differ in all rows of one person" in text
        assert {"NN-PERSONS", "NN-CLIP", "PERSON-WEIGHTS"} <= set(found.proofs)
        assert ("PERSON-ORDER" in found.proofs) == (name == "cyclic")
        assert str(len(IDS)) not in text
        assert "may have any number of rows" in text
    capped = private(persons=Persons.of(IDS, max_rows=7)).guarantee()
    assert capped.max_rows == 7
    assert "at most the first 7 rows" in capped.statement()


# --- the estimator -----------------------------------------------------------------------------


def classifier(**options: Any) -> PrivateClassifier:
    module = nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, 2))
    given: dict[str, Any] = {"epochs": 2, "batch_size": 6, "classes": [0, 1]} | options
    return PrivateClassifier(module, 2.0, 1e-3, **given)


def test_the_classifier_counts_persons(sums: list[Any]) -> None:
    X, y = ROWS.numpy(), np.arange(len(IDS)) % 2
    model = classifier(random_state=0).fit(X, y, persons=IDS)
    found = model.privacy_
    assert found.unit == "person"
    assert found.plan == make_plan(
        size=N, epsilon=2.0, delta=1e-3, batch_size=6, epochs=2, sampling="poisson"
    )
    assert f"the number of persons, {N}" in found.statement()
    assert str(len(IDS)) not in found.statement() + repr(vars(model))
    assert len(sums) == 8
    with pytest.raises(InvalidData, match="one identifier for each row"):
        classifier().fit(X, y, persons=IDS[1:])
    with pytest.raises(InvalidParameter, match="delta"):  # below 1/N, not below 1/rows
        PrivateClassifier(nn.Linear(D, 2), 2.0, 0.05, batch_size=6).fit(X, y, persons=IDS)
    away = classifier(adjacency="add-remove", population=30).fit(X, y, persons=IDS)
    assert str(len(IDS)) not in away.privacy_.statement()


def test_the_classifier_takes_a_level_for_each_person() -> None:
    X, y = ROWS.numpy(), np.arange(len(IDS)) % 2
    levels = np.where(OWNER % 3 == 0, 1.0, 2.0)
    model = classifier(random_state=0).fit(X, y, levels, persons=IDS)
    assert len(list(model.privacy_.plan.alternatives())) == 2
    one = levels.copy()
    one[np.flatnonzero(SIZES[OWNER] == 40)[0]] = 0.5
    with pytest.raises(InvalidData, match="same in all rows of one person"):
        classifier().fit(X, y, one, persons=IDS)


def test_the_joint_vector_of_a_person_is_within_one() -> None:
    rule, norms = Adaptive(0.3), torch.tensor([0.3] * 5 + [5.0] * 2, dtype=torch.float64)
    weights = torch.from_numpy(Persons.of([0] * 7).weights)
    rule._note(norms, weights)
    found = rounding.shared(rule.factors(norms), weights)
    total = np.append([float(found.double() @ norms)], rule._counts())
    bounded = rule._bounded(total, Adjacency.REPLACE_ONE, 5.0, 1.0)
    assert rule._counts().tolist() == [0.0]
    assert 0.9 < float(np.linalg.norm(bounded.value)) <= 1.0

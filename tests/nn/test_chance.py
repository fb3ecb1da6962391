"""Who draws what: no seed of others decides anything, and no record what another one draws."""

import dataclasses
import random
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="the nn extra is not installed")

from sixteen_rows import N, X, losses, private  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from noisette import Randomness  # noqa: E402
from noisette.errors import InvalidParameter  # noqa: E402
from noisette.nn.canary import RunCanary  # noqa: E402
from noisette.nn.clipping import Flat  # noqa: E402
from noisette.nn.gradients import ClippedGradients  # noqa: E402
from noisette.nn.gradients.chance import Chance  # noqa: E402

torch.set_num_threads(1)
SIZE, D = 64, 6
ROWS = torch.linspace(-1.0, 2.0, SIZE * D).mul(9.0).cos().view(SIZE, D)


class Net(nn.Module):
    """A linear layer behind a draw."""

    def __init__(self, draw: Any) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.draw, self.layer = draw, nn.Linear(D, 3)

    def forward(self, x: Any) -> Any:
        return 3.0 * self.layer(self.draw(x)).sigmoid()


def squared(module: Any, x: Any) -> Any:
    return module(x).square().sum(1)


def total(module: Any, rows: Any = ROWS, chance: Any = None, losses: Any = squared) -> Any:
    engine = ClippedGradients(module)
    engine.chance = chance or engine.chance
    out = torch.zeros(engine.dimension, dtype=torch.float64)
    engine.add(losses, rows, len(rows), Flat(1.0).factors, out)
    return out


def attention(x: Any) -> Any:
    x = x.view(1, 1, 3, 2)
    return functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5).reshape(1, D)


def depth(x: Any) -> Any:
    """What torchvision's stochastic depth does."""
    noise = torch.empty([x.shape[0], 1], dtype=x.dtype, device=x.device)
    noise = noise.bernoulli_(0.5)
    noise.div_(0.5)
    return x * noise


WAYS: dict[str, Any] = {
    "dropout": lambda x: functional.dropout(x, 0.5),
    "dropout in place": lambda x: functional.dropout(x.clone(), 0.5, inplace=True),
    "alpha dropout": lambda x: functional.alpha_dropout(x, 0.5, training=True),
    "rand": lambda x: x * torch.rand(D),
    "rand_like": lambda x: x * torch.rand_like(x),
    "randn": lambda x: x + torch.randn(1, D),
    "uniform_": lambda x: x * torch.empty_like(x).uniform_(),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full((1, D), 0.5)),
    "attention": attention,
    "gumbel": lambda x: functional.gumbel_softmax(x),
    "stochastic depth": depth,
    "normal": lambda x: torch.distributions.Normal(x, x.exp()).rsample(),
    "randperm": lambda x: x[:, torch.randperm(D)],
    "multinomial": lambda x: x[:, torch.multinomial(torch.ones(D), 3)].repeat(1, 2),
    "nested": lambda x: x * torch.func.grad(lambda t: (t * torch.rand(D)).sum())(x),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_seed_of_torch_decides_nothing(way: str) -> None:
    """Whoever knew the seed could compute both sums, which lie 7.8 clip norms apart for dropout."""
    module, found = Net(WAYS[way]), []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
        found.append(total(module))
        assert random.getstate() == states[0]
        assert np.random.get_state()[1].tolist() == states[1]
        assert torch.equal(torch.get_rng_state(), states[2])
    assert float((found[0] - found[1]).norm()) > 1e-3
    again = [total(module, chance=Chance(Randomness.from_seed(3))) for _ in range(2)]
    assert torch.equal(*again)


class Coupled(Chance):
    """Gives every record a stream of its own, whoever else is there: the coupling of the proof."""

    def __init__(self, names: list[int]) -> None:
        super().__init__(Randomness.from_seed(0))
        self.streams = [np.random.default_rng(name) for name in names]

    def words(self, count: int) -> Any:
        each, left = divmod(count, len(self.streams))
        assert not left
        return np.concatenate([g.integers(0, 2**64, each, np.uint64) for g in self.streams])

    def normal(self, shape: Any) -> Any:
        drawn = [g.normal(size=shape[1:]) for g in self.streams]
        return torch.from_numpy(np.stack(drawn))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "randperm"])
def test_each_record_draws_its_own(way: str) -> None:
    """Given everybody's own coins, a record that leaves takes one clip norm with it, at most."""
    everybody = total(Net(WAYS[way]), ROWS, Coupled(list(range(SIZE))))
    for gone in (0, 7):
        names = [name for name in range(SIZE) if name != gone]
        others = total(Net(WAYS[way]), ROWS[names], Coupled(names))
        assert 1e-3 < float((everybody - others).norm()) <= 1.0 + 1e-5


COUNT = 40_000
LAWS: dict[str, tuple[Any, Any]] = {
    "rand": (lambda: torch.rand(COUNT), stats.uniform()),
    "double": (lambda: torch.rand(COUNT, dtype=torch.float64), stats.uniform()),
    "uniform_": (lambda: torch.empty(COUNT).uniform_(-1.0, 3.0), stats.uniform(-1.0, 4.0)),
    "randn": (lambda: torch.randn(COUNT), stats.norm()),
    "normal": (lambda: torch.normal(torch.full((COUNT,), 2.0), 3.0), stats.norm(2.0, 3.0)),
    "normal_": (lambda: torch.empty(COUNT).normal_(1.0, 0.5), stats.norm(1.0, 0.5)),
    "log_normal_": (lambda: torch.empty(COUNT).log_normal_(0.0, 0.5), stats.lognorm(0.5)),
    "exponential_": (lambda: torch.empty(COUNT).exponential_(2.0), stats.expon(scale=0.5)),
    "cauchy_": (lambda: torch.empty(COUNT).cauchy_(1.0, 2.0), stats.cauchy(1.0, 2.0)),
    "geometric_": (lambda: torch.empty(COUNT).geometric_(0.3), stats.geom(0.3)),
    "bernoulli": (lambda: torch.bernoulli(torch.full((COUNT,), 0.3)), stats.bernoulli(0.3)),
    "bernoulli_": (lambda: torch.empty(COUNT).bernoulli_(0.3), stats.bernoulli(0.3)),
    "randint": (lambda: torch.randint(2, 7, (COUNT,)), stats.randint(2, 7)),
    "random_": (lambda: torch.empty(COUNT).random_(3, 6), stats.randint(3, 6)),
    "randperm": (lambda: torch.randperm(COUNT), stats.randint(0, COUNT)),
    "multinomial": (
        lambda: torch.multinomial(torch.tensor([0.3, 0.7]), COUNT, replacement=True),
        stats.bernoulli(0.7),
    ),
    "kept": (
        lambda: Chance(Randomness.from_seed(2)).kept((COUNT,), 0.7),
        stats.bernoulli(0.3),
    ),
    "dropout": (lambda: functional.dropout(torch.ones(COUNT), 0.7) * 0.3, stats.bernoulli(0.3)),
}


@pytest.mark.parametrize("law", LAWS)
def test_every_draw_has_its_law(law: str) -> None:
    """Fails by chance once in a million runs; a scale that is off by 5 % is found always."""
    draw, expected = LAWS[law]
    with Chance(Randomness.from_seed(1)).loading():
        found = draw().double()
    if isinstance(expected.dist, stats.rv_continuous):
        assert stats.kstest(found.numpy(), expected.cdf).pvalue > 1e-6
        return
    values, counts = found.round().unique(return_counts=True)
    share = expected.pmf(values.numpy()) * COUNT
    assert share.sum() > 0.999 * COUNT
    error = (counts.numpy() - share) / np.sqrt(share)
    assert float((error[share > 5] ** 2).sum()) < stats.chi2.isf(1e-6, max(1, len(values)))


def test_draws_without_a_rule_are_refused() -> None:
    own = torch.Generator()
    for draw, told in (
        (lambda x: x * torch.rand(D, generator=own), "generator of its own"),
        (lambda x: x * torch.poisson(torch.ones(D)), "poisson"),
        (lambda x: (torch.manual_seed(0), x)[1], "seeds torch's generator"),
    ):
        before = torch.get_rng_state()
        with pytest.raises(InvalidParameter, match=told):
            total(Net(draw))
        assert torch.equal(torch.get_rng_state(), before)

    def forked(x: Any) -> Any:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return x * torch.rand(D)

    assert not torch.equal(total(Net(forked)), total(Net(forked)))


def test_the_generators_are_given_back_after_an_error() -> None:
    def fails(x: Any) -> Any:
        raise ValueError(f"{random.random()} {np.random.rand()}")

    random.seed(0)
    np.random.seed(0)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    with pytest.raises(ValueError, match="0"):
        total(Net(fails))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[:2]
    assert torch.equal(torch.get_rng_state(), before[2])


@pytest.fixture
def no_canary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the passes of true records alone."""
    monkeypatch.setattr(RunCanary, "step", lambda *_: None)


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
@pytest.mark.usefixtures("no_canary")
def test_what_python_draws_is_the_same_in_all_passes_of_a_step(draw: Any) -> None:
    """Otherwise a record that leaves moves others to a pass with another number."""
    seen: list[float] = []

    def drawn(module: Any, batch: Any) -> Any:
        seen.append(float(draw()))
        return losses(module, batch)

    module = nn.Linear(3, 2)
    training = private(module, micro_batch=4)
    for rows in training.batches():
        training.step(drawn, X[rows])
    assert len(seen) == 3 * N // 4
    assert [len(set(seen[i : i + 4])) for i in range(0, 12, 4)] == [1, 1, 1]
    assert len(set(seen)) == 3


@pytest.mark.usefixtures("no_canary")
def test_a_pass_that_is_run_again_begins_with_the_same_numbers() -> None:
    """Code with transforms of its own is run twice in the first pass, and once in the second."""
    seen: list[float] = []

    def drawn(module: Any, batch: Any) -> Any:
        seen.append(random.random())
        return losses(module, batch * torch.func.grad(lambda x: x.sum())(batch))

    training = private(nn.Linear(3, 2), micro_batch=8)
    for rows in training.batches():
        training.step(drawn, X[rows])
    assert len(seen) == 7
    assert len(set(seen[:3])) == 1


def test_rows_are_made_with_our_chance() -> None:
    """A function that makes rows is called for one micro-batch after the other, in one order."""
    seen = []

    def rows_of(numbers: Any) -> Any:
        drawn = [torch.rand(()).item(), random.random(), float(np.random.rand())]
        seen.append(drawn)
        return X[numbers]

    for _ in range(2):
        module = nn.Linear(3, 2)
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        training = private(module, micro_batch=8)
        for _ in training.batches():
            training.step(losses, rows_of)
        assert torch.equal(torch.get_rng_state(), torch.Generator().manual_seed(0).get_state())
    assert [len(set(column)) for column in zip(*seen, strict=True)] == [12, 12, 12]

    class Noisy(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return N

        def __getitem__(self, number: int) -> Any:
            seen.append(torch.rand(()).item())
            return X[number]

    seen.clear()
    for _ in range(2):
        torch.manual_seed(0)
        training = private(nn.Linear(3, 2))
        for batch in training.loader(Noisy()):
            training.step(losses, batch)
    assert len(set(seen)) == len(seen) == 6 * N


def test_a_seeded_training_is_repeated_whatever_others_seed() -> None:
    found = []
    for seed in (1, 2):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        torch.manual_seed(seed)
        training = private(module, random_state=4)
        for rows in training.batches():
            training.step(losses, X[rows])
        found.append([p.detach().clone() for p in module.parameters()])
    assert all(map(torch.equal, *found))
    other = private(nn.Linear(3, 2), random_state=Randomness.from_seed(4).spawn(1)[0])
    same = Chance(Randomness.from_seed(4).spawn(1)[0])
    assert not np.array_equal(other._gradients.chance.words(4), same.words(4))


# --- what a record leaves behind ---------------------------------------------------------------

Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Held:
    value: Any


class Slots:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Sub(torch.Tensor):
    pass


KEPT: dict[str, Any] = {
    "parameter": nn.Parameter,
    "tensor": torch.Tensor,
    "subclass": lambda x: x.as_subclass(Sub),
    "named tuple": lambda x: Pair(nn.Parameter(x), 0),
    "object": lambda x: Held(nn.Parameter(x)),
    "slots": lambda x: Slots([nn.Parameter(x)]),
}


@pytest.mark.parametrize(("way", "collected"), [*((way, False) for way in KEPT), ("slots", True)])
def test_nothing_made_of_a_record_is_kept(way: str, collected: bool) -> None:
    import gc

    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(KEPT[way](x))
        if collected:
            gc.collect()
        return x

    with pytest.raises(InvalidParameter, match="keeps a record's values"):
        total(Net(keep))
    assert gc.isenabled()


@pytest.mark.parametrize("around", [lambda p: Pair(p, p), lambda p: [Held(p)], Slots])
def test_what_goes_into_a_function_is_looked_at_in_any_container(around: Any) -> None:
    def hidden(x: Any) -> Any:
        return functional.interpolate(x[None], around(nn.Parameter(x)))[0]

    with pytest.raises(InvalidParameter, match="parameter of a record"):
        total(Net(hidden))


# --- rounding ------------------------------------------------------------------------------------


def one_of(place: int) -> Any:
    def only(norms: Any) -> Any:
        found = torch.zeros(len(norms))
        found[place] = 1.0
        return found

    return only


@pytest.mark.parametrize("threads", [1, 2])
def test_a_gradient_does_not_depend_on_how_many_records_there_are(threads: int) -> None:
    """Kernels for few rows round otherwise, and at a ReLU's edge that is a whole gradient."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 1), nn.ReLU(), nn.Linear(1, 3))
    rows = torch.randn(64, 40)
    engine = ClippedGradients(net)
    torch.set_num_threads(threads)
    try:
        found = []
        for size in (64, *range(1, 14), 17, 33, 63):
            for place, part in ((0, rows[:size]), (-1, torch.cat([rows[1:size], rows[:1]]))):
                out = torch.zeros(engine.dimension)
                norms = engine.add(squared, part, size, one_of(place), out)
                assert norms.shape == (size,)
                found.append(out)
        assert all(torch.equal(found[0], out) for out in found)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("widths", [(6, 8, 3), (5, 9, 2), (30, 10, 1), (3, 7, 10)], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_gradient_does_not_depend_on_where_its_record_stands(
    widths: tuple[int, int, int], transposed: bool
) -> None:
    """Kernels round rows that begin at 16 bytes otherwise than rows that do not."""
    torch.manual_seed(0)
    d, h, p = widths
    net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, p))
    if transposed:
        net = nn.ParameterList([torch.randn(d, h), torch.randn(h), torch.randn(h, p)])
    rows = torch.randn(24, d)

    def losses(m: Any, x: Any) -> Any:
        if transposed:
            return (torch.addmm(m[1], x, m[0]).relu() @ m[2]).square().sum(1)
        return squared(m, x)

    engine, found = ClippedGradients(net), []
    for gone in range(8):
        out = torch.zeros(engine.dimension)
        engine.add(losses, rows[gone:].clone(), 24 - gone, one_of(-1), out)
        found.append(out)
    assert all(torch.equal(found[0], out) for out in found)

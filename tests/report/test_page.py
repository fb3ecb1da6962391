"""The page: escaped, self-contained, and never more comforting than the guarantee."""

import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats import norm

from noisette import Ledger
from noisette.core import mechanisms, plans, sampling
from noisette.core.adjacency import Adjacency
from noisette.core.guarantee import Guarantee
from noisette.core.mechanisms import MECHANISMS
from noisette.errors import Unproven
from noisette.report import (
    Subject,
    attack_power,
    curve_of,
    ledger_page,
    meaning,
    model_page,
)
from noisette.report.numbers import noise_of
from noisette.report.proofs import MEANINGS
from noisette.report.svg import bars, curve

EVIL = "<script>alert(1)</script>\"'&"


def guarantee(plan=None, epsilon=1.0, delta=0.0, relation="replace-one", **more):
    plan = plans.Run(mechanisms.SphericalLaplace(2.0, 5)) if plan is None else plan
    return Guarantee(epsilon, delta, plan.under(relation), "the weights", **more)


class Checker(HTMLParser):
    """Tags must nest, and no attribute may name something outside the page."""

    void = frozenset(
        {"meta", "link", "br", "input", "line", "rect", "circle", "polyline", "polygon"}
    )

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(page):
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    return checker


def subject(**more):
    return Subject(title="A model", unit="one row is one person", **more)


def test_the_page_says_it_all():
    promised = guarantee(public=("n = 5",), proofs=("SPHERICAL-LAPLACE",), notes=("A note.",))
    page = model_page(promised, subject(records=5, facts=[("age", "numeric", "0 to 1")]))
    text = "".join(parsed(page).text)
    assert " ".join(promised.paragraphs()) == promised.statement()
    assert promised.paragraphs()[0] in text
    for words in ("n = 5", "A note.", "SPHERICAL-LAPLACE", meaning("SPHERICAL-LAPLACE"), "age",
                  "No ledger was given", "noisette inspect", "one row is one person"):  # fmt: skip
        assert words in text


def test_everything_is_escaped():
    promised = guarantee(public=(EVIL,), proofs=(EVIL,), notes=(EVIL,))
    ledger = Ledger(epsilon=3.0)
    ledger.charge(mechanisms.Laplace.calibrated(0.5), label=EVIL)
    facts = [(EVIL, EVIL, EVIL)]
    page = model_page(promised, Subject(EVIL, EVIL, facts, 7, EVIL), ledger)
    for made in (page, ledger_page(ledger, EVIL)):
        found = parsed(made)
        assert "script" not in {tag for tag, _ in found.tags}
        assert not any(key.startswith("on") for _, attrs in found.tags for key in attrs)
        assert EVIL in "".join(found.text)


def test_nothing_is_fetched():
    found = parsed(model_page(guarantee(), subject()))
    for tag, attrs in found.tags:
        assert tag not in {"script", "img", "iframe", "object", "embed", "base", "form"}
        for key in ("src", "href", "action", "data", "poster"):
            assert attrs.get(key, "data:,") == "data:," or attrs[key].startswith("#theorem-")
    page = model_page(guarantee(), subject())
    assert not re.search(r"https?:|url\(|@import|//", page)
    assert "default-src 'none'" in page


def test_it_can_be_read_by_everybody():
    found = parsed(model_page(guarantee(), subject(records=100)))
    tags = [tag for tag, _ in found.tags]
    assert dict(found.tags)["html"]["lang"] == "en"
    assert tags.count("h1") == 1
    assert "viewport" in {attrs.get("name") for tag, attrs in found.tags if tag == "meta"}
    drawings = [attrs for tag, attrs in found.tags if tag == "svg"]
    assert len(drawings) == tags.count("figure") == 2
    assert all(attrs["role"] == "img" for attrs in drawings)
    assert tags.count("desc") == 2  # in words, for who cannot see them
    assert tags.count("title") == 3
    assert [tag for tag in tags if tag in ("h1", "h2", "h3")].index("h1") == 0
    for tag, attrs in found.tags:
        if tag == "th":
            assert attrs["scope"] in ("row", "col")


def test_a_seeded_model_is_called_not_private():
    page = model_page(guarantee(seeded=True), subject())
    assert "Not private: the noise came from a seed" in page
    assert "right with the model" not in page
    assert "Were any one record different" not in page
    assert "Not private" not in model_page(guarantee(), subject())


def test_n_is_shown_only_where_it_is_public():
    assert "<dt>Rows</dt><dd>4,711</dd>" in model_page(guarantee(), subject(records=4711))
    page = model_page(guarantee(relation="add-remove", epsilon=0.5), subject())
    assert "<dt>Rows</dt><dd>not public</dd>" in page


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 2.3, 2.31, 5.0, 8.0, 29.0, 40.0])
def test_the_factor_is_never_rounded_down(epsilon):
    plan = plans.Run(mechanisms.SphericalLaplace(2.0 / epsilon, 3))
    page = model_page(guarantee(plan, epsilon), subject())
    shown = re.search(r"change by at most a factor of ([0-9,.]+)\.</p>", page)
    if epsilon > 30:
        assert shown is None
        assert "astronomically" in page
    else:
        factor = float(shown[1].replace(",", ""))
        assert math.exp(epsilon) * (1 - 1e-9) <= factor <= math.exp(epsilon) * 1.01


@pytest.mark.parametrize("alarm", [0.001, 0.05, 0.9])
@pytest.mark.parametrize("multiplier", [0.5, 2.0, 20.0])
def test_the_power_is_a_bound_and_close(alarm, multiplier):
    """The best test against Gaussian noise is known: power Phi(mu - z_alarm)."""
    plan = plans.Run(mechanisms.Gaussian(multiplier)).under("zero-out")
    exact = norm.cdf(1.0 / multiplier + norm.ppf(alarm))
    promised = Guarantee(plan=plan, released="x", delta=1e-5,
                         epsilon=plan_epsilon(plan, 1e-5))  # fmt: skip
    bound = attack_power(promised, alarm, curve_of(promised))
    assert bound >= exact
    assert bound <= 1.0
    finer = curve_of(promised, tuple(np.geomspace(1e-6, 0.9, 60)))
    assert exact <= attack_power(promised, alarm, finer) <= exact * 1.03 + 1e-3


def plan_epsilon(plan, delta):
    from noisette.core import accounting

    return accounting.epsilon(plan, delta=delta, adjacency=plan.adjacency)


def test_the_curve_holds_and_falls():
    promised = guarantee()
    points = curve_of(promised)
    assert [d for d, _ in points] == sorted(d for d, _ in points)
    values = [e for _, e in points]
    assert values == sorted(values, reverse=True)
    assert all(e <= promised.epsilon for e in values)
    for delta, epsilon in points:
        assert promised.delta_at(epsilon * (1 + 1e-9)) <= delta * (1 + 1e-6)


def test_the_noise_in_units_of_one_record(rng):
    """Against the standard deviation of the mechanisms' own draws, along one coordinate."""
    for mechanism in (
        mechanisms.Gaussian(3.0),
        mechanisms.Laplace(2.0),
        mechanisms.SphericalLaplace(1.5, 7),
        mechanisms.ObjectiveNoise(2.0, 4, "spherical-laplace", 0.3),
    ):
        d = getattr(mechanism, "dimension", 1)
        drawn = mechanism.noise(200_000, d, 1.0, rng)[:, 0]
        plan = plans.Run(mechanism).under("replace-one")
        epsilon = plan_epsilon(plan, 1e-3)
        found = noise_of(Guarantee(epsilon, 1e-3, plan, "x"))[0].strength
        assert found == pytest.approx(drawn.std() / 2, rel=0.02)  # 0.02 is 6 standard errors


def test_noise_in_steps_and_batches():
    plan = plans.Repeat(
        plans.Sampled(mechanisms.Gaussian(20.0), sampling.Shuffle(10)), 3
    ).under("zero-out")  # fmt: skip
    promised = Guarantee(plan_epsilon(plan, 1e-5), 1e-5, plan, "x")
    noise = noise_of(promised)[0]
    assert (noise.where, noise.times, noise.batches) == ("steps", 30, 10)
    page = model_page(promised, subject(records=1000))
    assert "Noise was added in each of 30 steps" in page
    assert "a batch changed together, at most" in page


def test_every_theorem_of_a_guarantee_has_a_line():
    wanted = {kind.proof for kind in MECHANISMS.values()}
    from helpers import SAMPLER_EXAMPLES

    for examples in SAMPLER_EXAMPLES.values():
        for sampler in examples:
            for relation in Adjacency:
                try:
                    wanted.add(sampler.participation(relation).proof)
                except Unproven:
                    continue
    assert wanted <= set(MEANINGS)


def test_every_line_is_about_a_theorem_of_the_docs():
    from pathlib import Path

    text = (Path(__file__).parents[2] / "docs" / "theory" / "theorems.md").read_text()
    assert set(MEANINGS) <= set(re.findall(r"^### (\S+)$", text, flags=re.M))


def test_drawings_survive_odd_numbers():
    assert curve([], (0.0, 1.0)) == ""
    assert "NaN" not in curve([(1e-9, 0.0), (1e-3, 0.0)], (1e-9, 0.0)).upper().replace("<NAN", "")
    assert "nan" not in bars([("a", 1.0, False), ("b", 1.0, True)])
    assert "nan" not in bars([("a", 1e-9, False), ("b", 1e12, True)])


def test_a_ledger_of_every_rule():
    for rule, delta in (("sums", 0.0), ("renyi", 1e-6), ("gdp", 1e-6)):
        ledger = Ledger(2.0, delta, rule=rule)
        assert "Nothing has been charged yet" in ledger_page(ledger, "x")
        ledger.charge(mechanisms.Gaussian(50.0), label="first", delta=delta or None) if delta else (
            ledger.charge(mechanisms.Laplace(50.0), label="first")
        )
        assert "first" in "".join(parsed(ledger_page(ledger, "x")).text)


def test_half_the_epsilon_would_be_noticed():
    """The mutant of the bound above: a curve that is too low promises less power than there is."""
    plan = plans.Run(mechanisms.Gaussian(2.0)).under("zero-out")
    promised = Guarantee(plan_epsilon(plan, 1e-5), 1e-5, plan, "x")
    wrong = [(delta, epsilon / 2.0) for delta, epsilon in curve_of(promised)]
    assert attack_power(promised, 0.05, wrong) < norm.cdf(0.5 + norm.ppf(0.05))

"""The first screen: what was trained on what, the promise, the attacker, what to check."""

import math
import re

import pytest
from test_page import guarantee, parsed, plan_epsilon, subject

from noisette import Ledger
from noisette.core import mechanisms, plans
from noisette.core.guarantee import Guarantee
from noisette.core.theorems import THEOREMS, grounds_of
from noisette.fitting.losses import LOSSES
from noisette.report import Subject, attack_power, curve_of, model_page
from noisette.report.numbers import delta_words, factor_words
from noisette.report.proofs import MEANINGS


def promise(multiplier=5.0, relation="replace-one", **more):
    """Return a guarantee of Gaussian noise, whose curve says more than its one pair."""
    plan = plans.Run(mechanisms.Gaussian(multiplier)).under(relation)
    return Guarantee(plan_epsilon(plan, 1e-6), 1e-6, plan, "the weights", **more)


def text_of(page):
    return "".join(parsed(page).text).replace("\u00a0", " ")


def first_screen(page):
    return page[: page.index('<section class="checks">')]


def table_of(page):
    """Return (by guessing, with the model, times) of the attacker's table, in per cent."""
    rows = re.findall(r"<tr><td>(.*?)</td><td.*?>(.*?)</td><td.*?>(.*?)</td></tr>", page)
    clean = [[re.sub("<.*?>|at most|\u00a0%|,", "", cell) for cell in row] for row in rows[:4]]
    return [tuple(map(float, row)) for row in clean]


def test_what_was_trained_on_what():
    page = model_page(
        promise(), subject(table="stays.csv", schema="0123456789abcdef", records=4711,
                           date="2026-11-17")
    )  # fmt: skip
    top = first_screen(page)
    for words in ("stays.csv", "0123456789abcdef", "4,711", "2026-11-17", "noisette "):
        assert f"<dd>{words}" in top
    unknown = model_page(promise(relation="add-remove"), subject(table="stays.csv"))
    assert "<dt>Rows</dt><dd>not public</dd>" in unknown


def test_epsilon_and_unit_are_large_and_the_promise_is_one_sentence():
    found = promise()
    top = first_screen(model_page(found, subject()))
    assert re.search(r'<p class="big">ε = [0-9.]+ <small>δ = 10⁻⁶</small></p>', top)
    assert "for each record: one row is one person" in top
    [lead] = re.findall(r'<p class="lead">(.*?)</p>', top)
    assert lead.rstrip("</bdi>").count(". ") == 0
    assert "plus 10⁻⁶" in lead


def test_a_promise_to_persons_speaks_of_persons():
    whole = "one person, that is all rows with the same 'patient'"
    page = text_of(model_page(promise(unit="person"), Subject("A model", whole)))
    assert "for one person, that is all rows with the same 'patient'" in page
    assert "Were all rows of any one person different" in page
    assert "Persons" in page
    assert "k times ε" not in page


@pytest.mark.parametrize(
    ("relation", "words"),
    [("replace-one", "Were any one record different,"),
     ("zero-out", "Were any one record blanked out,"),
     ("add-remove", "Were any one record missing, or one more there,")],
)  # fmt: skip
def test_the_promise_speaks_of_its_own_neighbours_alone(relation, words):
    """To exchange a record costs more than to blank it out: no page may say "different" there."""
    page = text_of(model_page(promise(relation=relation), subject()))
    assert words in page
    assert ("record different" in page) == (relation == "replace-one")
    assert ("two candidates" in page) == (relation == "replace-one")


@pytest.mark.parametrize("multiplier", [1.8, 2.5, 5.0, 50.0])
def test_the_table_is_rounded_up_and_agrees_with_its_sentence(multiplier):
    found = promise(multiplier)
    page = model_page(found, subject())
    curve = curve_of(found)
    rows = table_of(page)
    assert [alarm for alarm, _, _ in rows] == [1, 5, 10, 25]
    for alarm, right, times in rows:
        power = attack_power(found, alarm / 100, curve)
        assert 100 * power <= right * (1 + 1e-9) <= 100 * power * 1.011
        assert 100 * power / alarm <= times * (1 + 1e-9) <= 100 * power / alarm * 1.011
    said = text_of(page)
    factor = factor_words(found.epsilon).removeprefix("a factor of ")
    assert f"{factor} times of the promise" in said
    first = float(re.search(r"1 % becomes at most ([0-9.,]+) %", said)[1].replace(",", ""))
    assert first == rows[0][1]


def test_the_sentence_where_the_factor_is_reached():
    plan = plans.Run(mechanisms.Laplace(2.0)).under("replace-one")
    page = text_of(model_page(Guarantee(1.0, 0.0, plan, "x"), subject()))
    assert "the factor of the promise at work, 2.72 times: 1 % becomes at most 2.72 %" in page


def test_a_promise_that_limits_nobody_says_so():
    plan = plans.Run(mechanisms.Laplace(2.0 / 40.0)).under("replace-one")
    for found in (Guarantee(40.0, 0.0, plan, "x"), promise(0.5)):
        assert "too weak to limit such an attacker" in text_of(model_page(found, subject()))


def test_what_the_reviewer_checks_has_boxes_and_room_to_sign():
    found = parsed(model_page(promise(), subject(facts=[("age", "numeric", "0 to 99")])))
    kinds = [attrs["type"] for tag, attrs in found.tags if tag == "input"]
    assert (
        kinds == ["checkbox"] * 5 + ["text"] * 3
    )  # three to check, yes, no; name, signature, date
    text = "".join(found.text)
    for words in ("The unit is right:", "Nothing was read off the data:", "Signature", "Date",
                  "Other releases are counted:", "listed under “Settings”", "Name"):  # fmt: skip
        assert words in text
    assert "nobody but you adds them up" in text


def test_the_ledger_takes_part_in_the_check():
    ledger = Ledger(3.0, 1e-5)
    ledger.charge(mechanisms.Gaussian(20.0), label="fit", delta=1e-6)
    assert "is in the ledger (below, 1 charge so far)" in model_page(promise(), subject(), ledger)


def test_nobody_signs_a_seeded_model():
    page = model_page(promise(seeded=True), subject())
    assert "Not private" in page
    assert "<input" not in page
    assert 'class="promise' not in page


def test_delta_and_factor_are_never_rounded_down():
    for delta, words in ((1e-6, "10⁻⁶"), (3.3e-7, "3.3 × 10⁻⁷"), (0.0, "0"), (0.02, "0.02"),
                         (1.2341e-9, "1.24 × 10⁻⁹"), (9.999e-8, "10⁻⁷")):  # fmt: skip
        assert delta_words(delta) == words
    for epsilon in (0.0, 0.3, 1.0, 7.77, 29.9):
        shown = float(factor_words(epsilon).removeprefix("a factor of ").replace(",", ""))
        assert math.exp(epsilon) * (1 - 1e-9) <= shown <= math.exp(epsilon) * 1.01


def test_every_theorem_is_a_link_to_its_sentence():
    found = promise()
    page = parsed(model_page(found, subject()))
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    links = {attrs["href"] for tag, attrs in page.tags if tag == "a"}
    assert len(ids) == len(set(ids))
    assert links == {f"#theorem-{name}" for name in found.proofs} == {f"#{one}" for one in ids}


def test_every_ground_of_a_cited_theorem_has_a_sentence():
    """A link never ends at "see elsewhere"; no sentence needs its neighbour to be understood."""
    below = {ground for name in MEANINGS for ground in grounds_of(name)}
    assert below <= set(MEANINGS) <= THEOREMS
    assert not [name for name, words in MEANINGS.items() if words.startswith("The same")]
    assert all(words.endswith(".") for words in MEANINGS.values())


def test_the_proofs_of_every_loss_have_a_sentence():
    cited = {proof for loss in LOSSES.values() for proof in loss.proofs}
    assert cited <= set(MEANINGS)


def test_the_statement_is_in_paragraphs():
    found = promise(public=("n = 5", "the year"), notes=("One thing.", "Another."))
    page = model_page(found, subject())
    for words in ("<p>One thing.</p>", "<p>Another.</p>", "<li>n = 5</li>", "<li>the year</li>"):
        assert words in page
    longest = max(len(words.split()) for words in re.findall(r"<p>(.*?)</p>", page))
    assert longest < 120
    assert guarantee(public=("a",)).paragraphs()[1].startswith("Treated as public")


@pytest.mark.parametrize("multiplier", [5.0, 0.1])
def test_an_epsilon_above_10_is_told(multiplier):
    found = promise(multiplier)
    large = found.epsilon > 10.0
    assert large == (multiplier < 1.0)
    for text in (first_screen(model_page(found, subject())), found.statement()):
        assert ("promises next to nothing" in text) == large
    # 1 in 20,000 has odds of 1 to 19,999, and e^10 of them are more than even
    assert math.exp(10.0) / 19_999.0 > 1.0

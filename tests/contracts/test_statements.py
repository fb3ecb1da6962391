"""What a lawyer reads: statement and report of typical models, sentence by sentence."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noisette
from noisette import Guarantee
from noisette.core import mechanisms, plans
from noisette.models import LinearSVC, LogisticRegression, SGDClassifier
from noisette.report import Subject, model_page

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(300, 3)) / 2.0, np.arange(300) % 2
LEVELS = np.where(np.arange(300) % 2, 1.0, 0.5)

MODELS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(norm_bound=1.0).fit(X, Y),
    "svm": lambda: LinearSVC(1.0, 1e-6, loss="hinge", adjacency="zero-out", norm_bound=1.0).fit(
        X, Y
    ),
    "levels": lambda: LogisticRegression(mechanism="output", norm_bound=1.0).fit(
        X, Y, sample_epsilon=LEVELS
    ),
    "hidden n": lambda: LogisticRegression(adjacency="add-remove", norm_bound=1.0).fit(X, Y),
    "descent": lambda: SGDClassifier(
        1.0, 1e-6, adjacency="add-remove", population=300, norm_bound=1.0
    ).fit(X, Y),
    "pass": lambda: SGDClassifier(adjacency="zero-out", norm_bound=1.0).fit(X, Y),
    "stream": lambda: SGDClassifier(classes=[0, 1], norm_bound=1.0).fit(iter([(X, Y)])),
}
ODD = re.compile(
    r"an own|by own|is told|\bdear\b|dearest|taken up|made up|made-up|reckon with", re.IGNORECASE
)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param]()


def test_a_statement_says_what_it_does_not_cover(model: Any) -> None:
    words = model.privacy_.statement()
    page = model_page(model.privacy_, Subject(title="A model", unit="one row is one person"))
    for text in (words, page):
        assert "The matrix X is taken as given: whatever was fitted on the data to make it" in text
        assert "This covers one fit." in text
        assert not ODD.search(text), ODD.search(text)
    adjacency = model.privacy_.adjacency.value
    blank = "neither with its features nor with its label, and a row of zeros with a label is not"
    assert (blank in words) == (adjacency == "zero-out")
    assert ("neither its features nor its label take part" in page) == (adjacency == "zero-out")
    assert ("that there is at least one record" in words) == (adjacency == "add-remove")


def test_sentences_end_once_and_begin_with_a_capital(model: Any) -> None:
    words = model.privacy_.statement()
    assert "  " not in words
    assert ".." not in words
    assert words.endswith(".")
    for sentence in re.split(r"\. (?=[A-Za-z])", words):
        assert sentence[0].isupper(), sentence


def test_networks_say_the_same() -> None:
    torch = pytest.importorskip("torch")
    from noisette.nn import PrivateClassifier

    made = PrivateClassifier(
        torch.nn.Linear(3, 2), 1.0, 1e-4, epochs=1, adjacency="add-remove", population=300
    ).fit(X, Y)
    words = made.privacy_.statement()
    assert "The matrix X is taken as given" in words
    assert "This covers one fit." in words
    assert "that there is at least one record" in words
    assert not ODD.search(words)


@pytest.mark.parametrize("room", ["models", "fitting/algorithms", "report", "tables", "app"])
def test_no_odd_word_in_the_rooms_that_speak_to_people(room: str) -> None:
    paths = list((Path(noisette.__file__).parent / room).rglob("*.py"))
    assert len(paths) > 3
    for path in paths:
        assert not ODD.search(path.read_text()), (path.name, ODD.search(path.read_text()))


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        ("replace-one", "had that person's record been different."),
        ("zero-out", "had that person's record been blanked out."),
        ("add-remove", "had that person's record not been there."),
    ],
)
def test_the_promise_in_words_is_that_of_the_relation(relation: str, words: str) -> None:
    """Failed before: every relation promised that an exchange of the record shows no more."""
    run = plans.Run(mechanisms.Laplace(noise_multiplier=4.0)).under(relation)
    statement = Guarantee(0.5, 0.0, run, "a count").statement()
    assert words in statement
    assert (relation == "replace-one") == ("been different" in statement)

"""A job: one record for commands and page, which shows itself and is read back."""

import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from noisette.app.commands.train import estimator_of
from noisette.app.job import Job, taken, takes
from noisette.app.studio import forecast, walk
from noisette.errors import InvalidParameter, NoisetteError
from noisette.tables import Schema

JOB = Job(
    table=Path("my patients.csv"), epsilons=(0.3,), target="ill", schema=Path("facts.toml"),
    learn=True, features=3, delta=1e-06, model="additive", pairs="age:ward", mechanism="output",
    loss="hinge", sampling="poisson", classes=3, persons=True, adjacency="add-remove", rows=900,
    class_weight="balanced", test_share=0.2, no_header=True, counts=0.05, public=True, repeats=2,
    ledger="it's.ledger", same_people=False, out=Path("m"), force=True, cluster="tcp://h:1",
    workers=2, seed=1, progress=True, json=True,
)  # fmt: skip

EXCUSED = {
    "target": "a schema made by the page names it", "learn": "always, what is left open is bought",
    "features": "they follow from the schema", "classes": "the schema lists them",
    "persons": "the schema names their column", "mechanism": "the default training",
    "loss": "the default training", "sampling": "the default training",
    "pairs": "commands and Python", "class_weight": "commands and Python",
    "counts": "another release, to be asked for by its command",
    "public": "the page is for the sensitive table", "repeats": "of --public",
    "same_people": "step 4 asks and writes the answer into the ledger", "force": "names are free",
    "cluster": "the page reads files of its machine", "workers": "the page reads one file",
    "seed": "hides nobody", "progress": "the page adds it", "json": "for machines",
}  # fmt: skip


def read_back(command, words):
    """Return the job that Typer makes of words."""
    found = []

    def work(job):
        found.append(job)

    work.__name__ = command
    app = typer.Typer()
    app.command()(takes(Job, work))
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return found[0]


@pytest.mark.parametrize("command", ["train", "plan"])
def test_a_job_is_the_command_that_it_shows(command):
    taken = {each.name for each in fields(Job) if command in each.metadata["words"]}
    known = Job(out=Path("noisette-model")) if command == "train" else Job()
    wanted = replace(known, **{name: getattr(JOB, name) for name in taken})
    first, *words = JOB.to_words(command)
    assert first == command
    assert read_back(command, words) == wanted
    assert all(getattr(JOB, each.name) != each.default for each in fields(Job))


def test_every_field_is_on_the_page_or_excused():
    templates = Path(walk.__file__).parent / "templates"
    text = " ".join(path.read_text() for path in templates.iterdir())
    asked = set(re.findall(r'name="([a-z-]+)"', text)) | set(re.findall(r'radio\("([a-z]+)"', text))
    asked |= {each.name for each, _ in taken(Job, "page")}  # drawn by a loop
    shown = set(forecast.as_form(forecast.USUAL)) & asked
    names = {"epsilon": "epsilons", "test": "test_share"}
    shown = {names.get(name, name) for name in shown}
    shown |= {"table", "schema", "no_header"}  # steps 1 and 2
    shown |= {"ledger", "out"}  # steps 4 and 5
    assert shown | set(EXCUSED) == {each.name for each in fields(Job)}
    assert not shown & set(EXCUSED)
    form = {"epsilon": "2", "delta": "1e-7", "rows": "70", "model": "additive", "test": "no",
            "adjacency": "add-remove"}  # fmt: skip
    made = forecast.job_from(form, Job())
    assert forecast.as_form(made) == form


@pytest.fixture
def labelled(monkeypatch):
    """Give fields of each type a label, as a new option has one."""
    for name in ("loss", "counts", "workers", "force"):
        words = Job.__dataclass_fields__[name].metadata["words"]
        monkeypatch.setitem(words, "page", f"The {name} to use")


FORM = {"epsilon": "2", "delta": "1e-7", "rows": "70", "model": "logistic", "test": "no",
        "adjacency": "zero-out"}  # fmt: skip


def test_a_field_with_a_label_is_read_and_written_by_its_type(labelled):
    assert forecast.job_from(FORM, Job()).loss is None
    form = FORM | {"loss": "hinge", "counts": "0,25", "workers": "3", "force": "True"}
    made = forecast.job_from(form, Job())
    assert (made.loss, made.counts, made.workers, made.force) == ("hinge", 0.25, 3, True)
    assert forecast.as_form(made).items() >= (form | {"counts": "0.25"}).items()
    shown = forecast.as_form(forecast.job_from(FORM, made))
    assert [shown[name] for name in ("loss", "counts", "workers", "force")] == ["", "", "", "False"]
    for name, said in (("counts", "a number"), ("workers", "a whole number")):
        with pytest.raises(InvalidParameter, match=f"“The {name} to use” must be {said}"):
            forecast.job_from(FORM | {name: "much"}, Job())


def test_a_field_with_a_label_is_drawn_and_shown(labelled, person, patients):
    person.choose(patients)
    person.say_facts()
    fresh = person.get(f"w/{person.walk}/budget").text
    assert '<details class="more">' in fresh
    assert '<label for="counts">The counts to use</label>' in fresh
    person.give_budget(loss="hinge", model="logistic")
    again = person.get(f"w/{person.walk}/budget").text
    assert '<details class="more" open>' in again
    assert 'name="loss" value="hinge"' in again
    assert "--loss hinge" in again
    assert "loss=&#39;hinge&#39;" in again


FACTS = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person",
         "columns": {"age": {"kind": "numeric"}}}  # fmt: skip
NUMBER = FACTS | {"target": {"name": "ill", "kind": "numeric", "low": 0, "high": 1}}
NUMBER.pop("classes")


def test_options_reach_the_constructor_by_their_names():
    facts = Schema.from_dict(FACTS, learn=True)
    asked = Job(epsilons=(1.0,), loss="hinge", test_share=0.2, mechanism="output", sampling="auto")
    model = estimator_of(asked, facts)
    assert (model.loss, model.test_share, model.mechanism) == ("hinge", 0.2, "output")
    assert (model.sampling, model.ledger, model.classes) == (None, None, None)


@pytest.mark.parametrize(
    ("facts", "asked", "words"),
    [
        (FACTS, {"loss": "hinge", "model": "additive"}, "--loss is not for --model additive."),
        (None, {"sampling": "poisson"}, "--sampling is not for --model logistic without --schema."),
        (None, {"test_share": 0.2}, "--test-share is not for --model logistic without --schema."),
        (NUMBER, {"mechanism": "output"}, "--mechanism .* where the target is a number."),
    ],
)
def test_options_of_other_models_are_refused(facts, asked, words):
    known = None if facts is None else Schema.from_dict(facts, learn=True)
    with pytest.raises(InvalidParameter, match=words):
        estimator_of(Job(epsilons=(1.0,), **asked), known)


def test_several_epsilons_are_several_models():
    with pytest.raises(NoisetteError, match=r"3 models .* epsilon = 4\.3 .*--public"):
        _ = replace(JOB, epsilons=(0.3, 1.0, 3.0)).epsilon


def test_a_job_imports_no_estimator():
    code = (
        "import sys, noisette.app.job\n"
        "print([m for m in sys.modules if m.startswith(('noisette.models', 'noisette.tables', "
        "'noisette.fitting', 'sklearn', 'scipy', 'numpy'))])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"

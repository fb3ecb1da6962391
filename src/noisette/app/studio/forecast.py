"""Step 3: what a budget promises and what it leaves to learn, from public facts alone."""

from collections.abc import Iterator, Mapping
from dataclasses import Field, replace
from typing import Any, get_args, get_type_hints

from markupsafe import Markup

from noisette import _validate
from noisette.app.job import Job, taken, written
from noisette.core.adjacency import Adjacency
from noisette.errors import InvalidParameter
from noisette.tables import Schema

MODELS = {
    "logistic": "a linear score (usually the most accurate)",
    "additive": "one curve for each column (the easiest to explain)",
}
RELATIONS = {
    "replace-one": "one person is exchanged for another; the number of people is public",
    "zero-out": "one person's row is blanked out; the number of rows is public",
    "add-remove": "one person is there or not; the number of people stays secret",
}
DELTAS = ("0", "1e-5", "1e-6", "1e-7", "1e-8", "1e-9")
_PROMISE = (
    "{changed}, the probability of whatever can be concluded from the model would change by at "
    "most {factor}{slack}."
)
_DEFAULT_TEST = 0.2


USUAL = Job(epsilons=(1.0,), delta=1e-6, test_share=_DEFAULT_TEST)
"""What step 3 proposes."""


def choices() -> Iterator[tuple[Field[Any], type]]:
    """Yield the fields of a job that have a label for the page, with float, int, bool or str."""
    types = get_type_hints(Job)
    for each, _ in taken(Job, "page"):
        yield each, (*get_args(types[each.name]), types[each.name])[0]


def job_from(form: Mapping[str, str], known: Job) -> Job:
    """Return the job with what the form of step 3 says; every fault is one sentence."""
    epsilon = _validate.epsilon(_read(form.get("epsilon", ""), float, "epsilon"))
    delta = _validate.delta(_read(form.get("delta", ""), float, "delta"))
    text = "".join(form.get("rows", "").split()).replace(",", "")
    if not text.isdecimal() or not 1 < int(text) < 10**12:
        raise InvalidParameter("about how many people are in the table must be a whole number.")
    _validate.delta_for(delta, int(text), "delta")
    chosen: dict[str, Any] = {}
    for each, kind in choices():
        said, label = form.get(each.name, "").strip(), each.metadata["words"]["page"]
        chosen[each.name] = _read(said, kind, f"“{label}”") if said else each.default
    return replace(
        known, epsilons=(epsilon,), delta=delta, rows=int(text),
        model=_validate.choice("model", form.get("model", USUAL.model), MODELS),
        adjacency=_validate.choice("relation", form.get("adjacency", USUAL.adjacency), RELATIONS),
        test_share=_DEFAULT_TEST if form.get("test") == "yes" else None, **chosen,
    )  # fmt: skip


def _read(said: str, kind: type, what: str) -> Any:
    """Return what a field of the form says; a comma may stand for the point of a number."""
    if kind in (bool, str):
        return said == "True" if kind is bool else said
    try:
        return kind(said.strip().replace(",", "."))
    except ValueError:
        number = "whole number" if kind is int else "number"
        raise InvalidParameter(f"{what} must be a {number}.") from None


def as_form(job: Job) -> dict[str, str]:
    """Return what the form of step 3 shows of a job."""
    form = {
        "epsilon": f"{job.epsilon:g}", "rows": "" if job.rows is None else str(job.rows),
        "delta": next((d for d in DELTAS if float(d) == job.delta), f"{job.delta:g}"),
        "model": job.model, "adjacency": job.adjacency,
        "test": "no" if job.test_share is None else "yes",
    }  # fmt: skip
    for each, _ in choices():
        value = getattr(job, each.name)
        form[each.name] = "" if value is None else written(value)
    return form


_REMEMBERED: dict[tuple[str, Job], dict[str, Any]] = {}
_MOST = 200


def forecast_of(schema: Schema, job: Job) -> dict[str, Any]:
    """Return what a training would buy; no row is looked at. Asked again, it is remembered."""
    key = schema.fingerprint, replace(job, ledger=None, out=None)
    if key not in _REMEMBERED:
        if len(_REMEMBERED) >= _MOST:
            _REMEMBERED.clear()
        _REMEMBERED[key] = _forecast_of(schema, job)
    return _REMEMBERED[key]


def _forecast_of(schema: Schema, job: Job) -> dict[str, Any]:
    """Return what the page shows of a plan; `gain` is the report's table about an attacker."""
    # imported late: the first pages need none of it, and it takes a second
    from noisette.app.commands.plan import forecast, lost_words, others
    from noisette.core.guarantee import Guarantee, too_large
    from noisette.report.numbers import curve_of, promised
    from noisette.report.page import attacker
    from noisette.tables.person_facts import planned_unit

    asked = forecast(job, schema)
    found = others(job, lambda changed: forecast(changed, schema))
    unit = planned_unit(schema.persons, 0)
    stated = Guarantee(
        job.epsilon, job.delta, asked.plan.under(Adjacency.of(job.adjacency)), "a model",
        unit=unit.word, max_rows=unit.max_rows,
    )  # fmt: skip
    return {
        "lost": round(100.0 * asked.lost),
        "weak": too_large(job.epsilon),
        "warning": asked.warning.replace('(kind = "ignore")', "(“leave it out” in step 2)"),
        "steps": [(f"{100.0 * s.part:.2g} %", s.released, s.expected) for s in asked.steps],
        "others": [(_words(row["change"]), lost_words(row)) for row in found],
        "idle": [(c.name, c.note) for c in asked.columns if c.used and not c.matters],
        "seconds": asked.seconds,
        "promise": _PROMISE.format(**promised(stated, stated.unit)),
        "gain": Markup(attacker(stated, curve_of(stated))),  # escaped by its template
    }


def _words(change: str) -> str:
    """Return a change in the signs of the page."""
    change = change.replace("epsilon", "ε").replace("delta", "δ").replace("e-0", "e-")
    return f"relation {change}" if change in RELATIONS else change

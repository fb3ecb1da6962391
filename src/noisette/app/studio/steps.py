"""Steps 1 to 5: each has a page that asks, and a form that is checked, kept and led on."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from noisette import _validate
from noisette._validate import visible
from noisette.app.commands.console import refuse
from noisette.app.job import Job
from noisette.app.studio import pages
from noisette.app.studio.chosen import HEADERS, choose, entries, listed, on_page
from noisette.app.studio.facts import UNITS, WRITTEN, FactFault, schema_from
from noisette.app.studio.forecast import (
    DELTAS,
    MODELS,
    RELATIONS,
    USUAL,
    as_form,
    forecast_of,
    job_from,
)
from noisette.app.studio.walk import TOO_EARLY, Walk, open_books
from noisette.core.ledger import Ledger
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.tables import toml
from noisette.tables.encoding import count_units
from noisette.tables.kinds import KINDS

if TYPE_CHECKING:
    from noisette.app.studio.app import Studio

Form = Mapping[str, str]
_KEPT = "What you said since is kept."


class Steps:
    """The pages of steps 1 to 5."""

    def __init__(self, studio: "Studio") -> None:
        self._studio = studio

    def _walk(self, request: Request, least: int) -> Walk:
        """Return the walk of a request, if it has come as far as step `least`."""
        walk = self._studio.walks.get(request.path_params["walk"])
        if walk is None:
            raise InvalidParameter(
                "this page belongs to a studio that has ended; start again with a table."
            )
        refuse((walk.reached < least, TOO_EARLY))
        return walk

    def _page(self, at: str, walk: Walk | None, status: int = 200, **known: Any) -> Response:
        return self._studio.show(f"{at}.html", status, at=at, walk=walk, **known)

    # --- 1: a table ----------------------------------------------------

    def show_table(self, request: Request) -> Response:
        """Ask for a table."""
        return self._tables(Path(request.query_params.get("in", self._studio.folder)), {}, "")

    def _tables(self, folder: Path, form: Form, error: str) -> Response:
        place = listed(folder)
        try:
            found = entries(place)
        except NoisetteError as fault:
            found, error = [], error or str(fault)
        asked = {"path": "", "header": "auto", "names": "", "encoding": "utf-8", "decimal": ""}
        return self._page(
            "table", None, 200, entries=found, place=str(place),
            above=str(place.parent), form=asked | dict(form), error=visible(error),
            same=None, headers=HEADERS, models=self._studio.shelf.names(),
        )  # fmt: skip

    def take_table(self, request: Request, form: Form) -> Response:
        """Read the header of the chosen table."""
        wanted = form.get("pick") or form.get("path", "")
        given = {k: form[k] for k in ("header", "names", "encoding", "decimal") if k in form}
        try:
            table = choose(wanted, self._studio.folder, **given)
        except NoisetteError as error:
            place = Path(form.get("place", self._studio.folder))
            return self._tables(place, {**form, "path": wanted}, str(error))
        before = self._studio.walks.last_on(table.path)
        walk = Walk(table) if before is None else before.afresh(table)
        self._studio.walks.keep(walk)
        return self._studio.go(f"w/{walk.key}/facts")

    # --- 2: what is public ----------------------------------------------------

    def show_facts(self, request: Request) -> Response:
        """Show one card for each column."""
        walk = self._walk(request, 2)
        return self._facts(walk, walk.answers, None)

    def _facts(self, walk: Walk, form: Form, error: FactFault | None) -> Response:
        names = list(walk.table.columns)
        typed = {name: facts["kind"] != "?" for name, facts in walk.table.columns.items()}
        return self._page(
            "facts", walk, 200, names=names, form=form, typed=typed,
            kinds=KINDS, units=UNITS, written=WRITTEN,
            error=visible(str(error)) if error else "",
            fault=None if error is None else error.card, same=pages.for_table(walk.table),
        )  # fmt: skip

    def take_facts(self, request: Request, form: Form) -> Response:
        """Check the facts and write them down."""
        walk = self._walk(request, 2)
        try:
            schema = schema_from(form, walk.table)
        except FactFault as error:
            return self._facts(walk, form, error)
        with self._studio.walks.lock:  # two tabs may send it at once, and there is one file
            walk = self._walk(request, 2)
            self._studio.walks.keep(walk.with_facts(dict(form), schema, self._studio.folder))
        return self._studio.go(f"w/{walk.key}/budget")

    # --- 3: a budget ----------------------------------------------------

    def show_budget(self, request: Request) -> Response:
        """Ask for a budget."""
        walk = self._walk(request, 3)
        return self._budget(walk, as_form(walk.job if walk.job.epsilons else USUAL), "")

    def _budget(self, walk: Walk, form: Form, error: str) -> Response:
        form, asked = as_form(USUAL) | dict(form), None
        with contextlib.suppress(NoisetteError):
            asked = job_from(form, walk.start)
        return self._page(
            "budget", walk, 200, form=form, deltas=_deltas(form), models=MODELS,
            relations=RELATIONS, error=visible(error), number=walk.facts.target_bounds is not None,
            unit=walk.facts.protected, persons=walk.facts.whose.grouped,
            schema_text=toml.dumps(walk.facts.source), schema_file=str(walk.job.schema),
            **self._outlook(walk, asked),
        )  # fmt: skip

    def _outlook(self, walk: Walk, job: Job | None) -> dict[str, Any]:
        """Return what the budget would buy; the sentence of what forbids it."""
        known: dict[str, Any] = {"outlook": None, "refused": "", "budget": job, "same": None}
        if job is None:
            return known
        known["same"] = job.to_command("plan"), job.to_python("plan", walk.facts)
        try:
            known["outlook"] = forecast_of(walk.facts, job)
        except NoisetteError as error:
            known["refused"] = visible(str(error))
        return known

    def show_outlook(self, request: Request, form: Form) -> Response:
        """Show the part of step 3 that follows what is typed; also once when the page is ready."""
        walk = self._walk(request, 3)
        known = self._outlook(walk, None)
        if form.get("rows", "").strip():
            try:
                job = job_from(form, walk.start)
                walk.check_guess(job)
                known = self._outlook(walk, job)
            except NoisetteError as error:
                known["refused"] = visible(str(error))
        return self._page("_outlook", walk, **known)

    def count(self, request: Request, form: Form) -> Response:
        """Count the rows or persons, where their number is public; nothing else is looked at."""
        walk = self._walk(request, 3)
        walk.table.check_same()
        refuse(
            (form.get("adjacency") == "add-remove",
             "under add-remove the number of people is private; give a guess made without the "
             "table."),
        )  # fmt: skip
        try:
            found = count_units(walk.table.path, walk.facts, header=walk.table.header)
        except InvalidData as error:
            return self._budget(walk, form, f"{on_page(error)} {_KEPT}")
        with self._studio.walks.lock:
            walk = self._walk(request, 3)
            self._studio.walks.keep(replace(walk, counted=walk.counted | {found}))
        return self._budget(walk, {**form, "rows": str(found)}, "")

    def take_budget(self, request: Request, form: Form) -> Response:
        """Keep the budget."""
        walk = self._walk(request, 3)
        try:
            job = job_from(form, walk.start)
            walk.check_guess(job)
            forecast_of(walk.facts, job)  # refuses what cannot be trained
        except NoisetteError as error:
            return self._budget(walk, form, str(error))
        self._studio.walks.keep(walk.with_job(job))
        return self._studio.go(f"w/{walk.key}/ledger")

    # --- 4: a ledger ----------------------------------------------------

    def show_ledger(self, request: Request) -> Response:
        """Ask which ledger pays."""
        walk = self._walk(request, 4)
        own = self._studio.folder / f"{walk.table.stem}.ledger"
        choice = "open" if own.exists() else "start"
        form = {
            "choice": choice, "open": own.name if own.exists() else "", "start": own.name,
            "total-epsilon": f"{walk.job.epsilon:g}", "total-delta": f"{walk.job.delta:g}",
        }  # fmt: skip
        return self._ledger(walk, form, "")

    def _ledger(self, walk: Walk, form: Form, error: str, others: Sequence[str] = ()) -> Response:
        found = []
        for path in sorted(self._studio.folder.glob("*.ledger"))[:20]:
            with contextlib.suppress(NoisetteError):
                one = Ledger.open(path)
                left = f"ε {one.remaining[0]:.6g} and δ {one.remaining[1]:g} left"
                found.append((path.name, left if one.rule == "sums" else f"rule {one.rule}"))
        return self._page(
            "ledger", walk, 200, form=form, error=visible(error), found=found,
            budget=walk.job, same=None, others=list(map(visible, others)),
        )  # fmt: skip

    def take_ledger(self, request: Request, form: Form) -> Response:
        """Open the ledger, or start it."""
        walk = self._walk(request, 4)
        try:
            total = _total(form) if form.get("choice") == "start" else None
            name = form.get("start" if total else "open", "")
            place, ledger = open_books(name, self._studio.folder, total, walk.job)
            others = ledger.matching(walk.facts.kinds)
            if others and form.get("people") not in ("same", "other"):
                form = {**form, "choice": "open", "open": place.name}  # it exists by now
                return self._ledger(walk, form, "", others)
            for other in others:
                ledger.answer(other, same=form["people"] == "same")
            self._studio.walks.keep(walk.with_ledger(place, total, self._studio.folder))
        except NoisetteError as error:
            return self._ledger(walk, form, str(error))
        return self._studio.go(f"w/{walk.key}/train")

    # --- 5: train ----------------------------------------------------

    def show_train(self, request: Request) -> Response:
        """Show all that was said, to be confirmed once."""
        walk = self._walk(request, 5)
        if self._studio.runs.get(walk.confirmed.key) is not None:
            return self._studio.go(f"r/{walk.confirmed.key}")
        return self._train(self._with_free_folder(walk), "")

    def _with_free_folder(self, walk: Walk) -> Walk:
        """Return the walk, with another order if the model folder of its own was taken since."""
        with self._studio.walks.lock:
            order = walk.confirmed
            if self._studio.runs.get(order.key) or not order.out.exists():
                return walk
            return self._studio.walks.keep(walk.ordered(self._studio.folder))

    def _train(self, walk: Walk, error: str) -> Response:
        place = Path(str(walk.job.ledger))
        ledger = Ledger.open(place)
        shown = walk.job.to_command("train"), walk.job.to_python("train", walk.facts)
        before = pages.for_ledger(place, walk.total, walk.job.adjacency)
        return self._page(
            "train", walk, 200, error=visible(error), same=shown, before=before,
            schema=walk.facts, budget=walk.job, order=walk.confirmed, books=place.name,
            left=ledger.remaining, sums=ledger.rule == "sums",
            warning=forecast_of(walk.facts, walk.job).warning,
            earlier=self._studio.runs.of_walk(walk.key),
        )  # fmt: skip

    def take_train(self, request: Request, form: Form) -> Response:
        """Start the training that was shown: once, however often this is sent."""
        walk = self._walk(request, 5)
        key = form.get("order", "")
        run = self._studio.runs.get(key)
        if run is None:
            order = walk.confirmed
            refuse(
                (order.key != key,
                 "what this page shows was changed in the meantime, so nothing was started and "
                 "nothing was charged; look at step 5 again."),
            )  # fmt: skip
            try:
                walk.table.check_same()
                walk.check_facts()
                other = self._with_free_folder(walk)
                if other is not walk:
                    return self._train(other, "the model folder was taken by another training in "
                                       "the meantime, so this one gets another name; nothing was "
                                       "started, so confirm it once more.")  # fmt: skip
                run = self._studio.runs.start(order, ends_with_page=form.get("closed") == "stop")
            except NoisetteError as error:
                return self._train(walk, str(error))
        return self._studio.go(f"r/{run.order.key}")

    def again(self, request: Request, form: Form) -> Response:
        """Make a new order: another model, another charge, to be confirmed again."""
        walk = self._walk(request, 5)
        with self._studio.walks.lock:
            if self._studio.runs.get(walk.confirmed.key) is not None:
                walk = self._studio.walks.keep(walk.ordered(self._studio.folder))
        return self._studio.go(f"w/{walk.key}/train")


def _deltas(form: Form) -> list[str]:
    """Return the deltas to choose from: one of them fits the number of people that was stated."""
    rows = "".join(form.get("rows", "").split()).replace(",", "")
    fit = _validate.proposed_delta(int(rows[:15]) if rows.isdecimal() else None)
    return [*DELTAS, *[fit] * (fit not in DELTAS)]


def _total(form: Form) -> tuple[float, float]:
    given = [form.get(f"total-{name}", "").replace(",", ".") for name in ("epsilon", "delta")]
    try:
        return float(given[0]), float(given[1])
    except ValueError:
        raise InvalidParameter("the total of a ledger is two numbers, epsilon and delta.") from None

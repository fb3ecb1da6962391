"""Steps 1 to 5: each has a page that asks, and a form that is checked, kept and led on.

A form that cannot be kept is shown again, with the sentence that says why.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from noisette import _validate
from noisette._validate import visible
from noisette.app.job import Job
from noisette.app.studio import pages
from noisette.app.studio.chosen import choose, entries, listed, on_page
from noisette.app.studio.facts import UNITS, WRITTEN, schema_from
from noisette.app.studio.forecast import (
    DELTAS,
    MODELS,
    RELATIONS,
    USUAL,
    as_form,
    choices,
    forecast_of,
    job_from,
)
from noisette.app.studio.results import models_in
from noisette.app.studio.walk import Walk, open_books
from noisette.core.ledger import Ledger
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.tables import toml
from noisette.tables.encoding import count_units
from noisette.tables.kinds import KINDS

if TYPE_CHECKING:
    from noisette.app.studio.app import Studio

Form = Mapping[str, str]
_EMPTY: Form = {}


class Steps:
    """The pages of steps 1 to 5."""

    def __init__(self, studio: "Studio") -> None:
        self._studio, self._walks, self._runs = studio, studio.walks, studio.runs

    def on(self, least: int, work: Callable[..., Response]) -> Callable[..., Response]:
        """Return the answer to a request whose walk has come as far as step `least`."""

        def answer(request: Request, *form: Form) -> Response:
            walk = self._walks.get(request.path_params["walk"])
            if walk is None:
                raise InvalidParameter(
                    "this page belongs to a studio that has ended; start again with a table."
                )
            if walk.reached < least:
                raise InvalidParameter("a step before this one is still to be done; go back to it.")
            return work(walk, *form)

        return answer

    def _page(self, at: str, walk: Walk | None, **known: Any) -> Response:
        return self._studio.show(f"{at}.html", at=at, walk=walk, **known)

    def _keep(self, walk: Walk, following: str) -> Response:
        """Keep what a form said, and lead on to a step."""
        self._walks.keep(walk)
        return self._studio.go(f"w/{walk.key}/{following}")

    # --- 1: a table ----------------------------------------------------

    def show_table(self, request: Request, form: Form = _EMPTY, error: object = "") -> Response:
        """Ask for a table."""
        asked_for = form.get("place") or request.query_params.get("in") or self._studio.folder
        place = listed(Path(asked_for))
        try:
            found = entries(place)
        except NoisetteError as fault:
            found, error = [], error or fault
        usual = {"header": "auto", "names": "", "encoding": "utf-8", "decimal": ""}
        return self._page(
            "table", None, entries=found, place=str(place), above=str(place.parent),
            form={**usual, **form, "path": form.get("pick") or form.get("path", "")},
            error=error, models=models_in(self._studio.folder),
        )  # fmt: skip

    def take_table(self, request: Request, form: Form) -> Response:
        """Read the header of the chosen table."""
        given = {k: form[k] for k in ("header", "names", "encoding", "decimal") if k in form}
        table = choose(form.get("pick") or form.get("path", ""), self._studio.folder, **given)
        before = self._walks.last_on(table.path)
        walk = Walk(table)
        if before is not None:  # the same table, maybe read in another way: what was said is kept
            same = list(table.columns) == list(before.table.columns)
            walk = Walk(table, answers=before.answers if same else {}, counted=before.counted)
        return self._keep(walk, "facts")

    # --- 2: what is public ----------------------------------------------------

    def show_facts(self, walk: Walk, form: Form | None = None, error: object = "") -> Response:
        """Show one card for each column."""
        columns = walk.table.columns
        return self._page(
            "facts", walk, names=list(columns), form=walk.answers if form is None else form,
            typed={name: facts["kind"] != "?" for name, facts in columns.items()},
            kinds=KINDS, units=UNITS, written=WRITTEN, error=error,
            fault=getattr(error, "card", None), same=pages.for_table(walk.table),
        )  # fmt: skip

    def take_facts(self, walk: Walk, form: Form) -> Response:
        """Check the facts and write them down."""
        schema = schema_from(form, walk.table)
        with self._walks.lock:  # two tabs may send it at once, and there is one file
            walk = self._walks.get(walk.key) or walk
            return self._keep(walk.with_facts(dict(form), schema, self._studio.folder), "budget")

    # --- 3: a budget ----------------------------------------------------

    def show_budget(self, walk: Walk, form: Form | None = None, error: object = "") -> Response:
        """Ask for a budget."""
        if form is None:
            form = as_form(walk.job if walk.job.epsilons else USUAL)
        usual, asked = as_form(USUAL), None
        form = usual | dict(form)
        folded = usual.keys() - {"epsilon", "delta", "rows", "test"}  # under "More choices"
        with contextlib.suppress(NoisetteError):
            asked = job_from(form, walk.start)
        # one of the deltas fits the number of people that was stated
        rows = "".join(form["rows"].split()).replace(",", "")
        fit = _validate.proposed_delta(int(rows[:15]) if rows.isdecimal() else None)
        return self._page(
            "budget", walk, form=form, deltas=[*DELTAS, *[fit] * (fit not in DELTAS)],
            models=MODELS, relations=RELATIONS, choices=choices(), error=error,
            more=any(form[name] != usual[name] for name in folded), unit=walk.facts.protected,
            persons=walk.facts.whose.grouped,
            schema_text=toml.dumps(walk.facts.source), schema_file=str(walk.job.schema),
            **self._forecast(walk, asked),
        )  # fmt: skip

    def _forecast(self, walk: Walk, job: Job | None, refused: object = "") -> dict[str, Any]:
        """Return what the budget would buy; the sentence of what forbids it."""
        forecast = same = None
        if job is not None:
            same = job.to_command("plan"), job.to_python("plan", walk.facts)
            try:
                forecast = forecast_of(walk.facts, job)
            except NoisetteError as error:
                refused = error
        refused = visible(str(refused))
        return {"forecast": forecast, "refused": refused, "budget": job, "same": same}

    def show_forecast(self, walk: Walk, form: Form) -> Response:
        """Show the part of step 3 that follows what is typed; also once when the page is ready."""
        job, refused = None, None
        if form.get("rows", "").strip():
            try:
                job = walk.asked(form)
            except NoisetteError as error:
                refused = error
        return self._page("_forecast", walk, **self._forecast(walk, job, refused or ""))

    def count(self, walk: Walk, form: Form) -> Response:
        """Count the rows or persons, where their number is public; nothing else is looked at."""
        walk.table.check_same()
        if form.get("adjacency") == "add-remove":
            raise InvalidParameter(
                "under add-remove the number of people is private; give a guess made without the "
                "table."
            )
        try:
            found = count_units(walk.table.path, walk.facts, header=walk.table.header)
        except InvalidData as error:
            raise InvalidData(f"{on_page(error)} What you said since is kept.") from None
        with self._walks.lock:
            walk = self._walks.get(walk.key) or walk
            self._walks.keep(replace(walk, counted=walk.counted | {found}))
        return self.show_budget(walk, {**form, "rows": str(found)})

    def take_budget(self, walk: Walk, form: Form) -> Response:
        """Keep the budget."""
        job = walk.asked(form)
        forecast_of(walk.facts, job)  # refuses what cannot be trained
        walk.table.check_same()
        return self._keep(replace(walk, job=job, order=None), "ledger")

    # --- 4: a ledger ----------------------------------------------------

    def show_ledger(
        self, walk: Walk, form: Form | None = None, error: object = "", others: Sequence[str] = ()
    ) -> Response:
        """Ask which ledger pays."""
        if form is None:
            own = self._studio.folder / f"{walk.table.stem}.ledger"
            there = own.exists()
            form = {
                "choice": "open" if there else "start", "open": own.name if there else "",
                "start": own.name, "total-epsilon": f"{walk.job.epsilon:g}",
                "total-delta": f"{walk.job.delta:g}",
            }  # fmt: skip
        found = []
        for path in sorted(self._studio.folder.glob("*.ledger"))[:20]:
            with contextlib.suppress(NoisetteError):
                one = Ledger.open(path)
                left = f"ε {one.remaining[0]:.6g} and δ {one.remaining[1]:g} left"
                found.append((path.name, left if one.rule == "sums" else f"rule {one.rule}"))
        return self._page(
            "ledger", walk, form=form, error=error, found=found, budget=walk.job,
            others=list(map(visible, others)),
        )  # fmt: skip

    def take_ledger(self, walk: Walk, form: Form) -> Response:
        """Open the ledger, or start it."""
        name, total = form.get("open", ""), None
        if form.get("choice") == "start":
            name = form.get("start", "")
            given = [
                form.get(f"total-{each}", "").replace(",", ".") for each in ("epsilon", "delta")
            ]
            try:
                total = float(given[0]), float(given[1])
            except ValueError:
                raise InvalidParameter(
                    "the total of a ledger is two numbers, epsilon and delta."
                ) from None
        place, ledger = open_books(name, self._studio.folder, total, walk.job)
        others = ledger.matching(walk.facts.kinds)
        if others and form.get("people") not in ("same", "other"):
            form = {**form, "choice": "open", "open": place.name}  # it exists by now
            return self.show_ledger(walk, form, "", others)
        for other in others:
            ledger.answer(other, same=form["people"] == "same")
        paid = replace(walk, job=replace(walk.job, ledger=str(place)), total=total)
        return self._keep(paid.ordered(self._studio.folder), "train")

    # --- 5: train ----------------------------------------------------

    def show_train(self, walk: Walk) -> Response:
        """Show all that was said, to be confirmed once."""
        if self._runs.get(walk.confirmed.key) is not None:
            return self._studio.go(f"r/{walk.confirmed.key}")
        return self._train(self._with_free_folder(walk), "")

    def _with_free_folder(self, walk: Walk) -> Walk:
        """Return the walk, with another order if the model folder of its own was taken since."""
        with self._walks.lock:
            order = walk.confirmed
            if self._runs.get(order.key) or not order.out.exists():
                return walk
            return self._walks.keep(walk.ordered(self._studio.folder))

    def _train(self, walk: Walk, error: object) -> Response:
        place = Path(str(walk.job.ledger))
        ledger = Ledger.open(place)
        return self._page(
            "train", walk, error=error, schema=walk.facts, budget=walk.job, order=walk.confirmed,
            same=(walk.job.to_command("train"), walk.job.to_python("train", walk.facts)),
            before=pages.for_ledger(place, walk.total, walk.job.adjacency), books=place.name,
            left=ledger.remaining, sums=ledger.rule == "sums",
            warning=forecast_of(walk.facts, walk.job)["warning"],
            earlier=self._runs.of_walk(walk.key),
        )  # fmt: skip

    def take_train(self, walk: Walk, form: Form) -> Response:
        """Start the training that was shown: once, however often this is sent."""
        order, key = walk.confirmed, form.get("order", "")
        if self._runs.get(key) is None:
            if order.key != key:
                raise InvalidParameter(
                    "what this page shows was changed in the meantime, so nothing was started and "
                    "nothing was charged; look at step 5 again."
                )
            try:
                walk.table.check_same()
                walk.check_facts()
                other = self._with_free_folder(walk)
                if other is not walk:
                    return self._train(other, "the model folder was taken by another training in "
                                       "the meantime, so this one gets another name; nothing was "
                                       "started, so confirm it once more.")  # fmt: skip
                self._runs.start(order, ends_with_page=form.get("closed") == "stop")
            except NoisetteError as error:
                return self._train(walk, error)
        return self._studio.go(f"r/{key}")

    def again(self, walk: Walk, form: Form) -> Response:
        """Make a new order: another model, another charge, to be confirmed again."""
        with self._walks.lock:
            if self._runs.get(walk.confirmed.key) is not None:
                self._walks.keep(walk.ordered(self._studio.folder))
        return self._studio.go(f"w/{walk.key}/train")

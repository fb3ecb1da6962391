"""The application: which address shows which step, and what a form does."""

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from noisette._validate import visible
from noisette.app.studio import pages
from noisette.app.studio.guard import Guard, Keys, same
from noisette.app.studio.results import Results
from noisette.app.studio.runs import Runs
from noisette.app.studio.steps import Steps
from noisette.app.studio.walk import Walks
from noisette.errors import NoisetteError
from noisette.report.html import stylesheet

Shower = Callable[..., Response]
_STATIC = Path(__file__).parent / "static"


class Studio:
    """What the pages of one studio share: the folder, the walks, the trainings, the secrets.

    In `folder` tables are looked for first, and models, schemas and ledgers are kept.
    """

    def __init__(self, folder: Path, keys: Keys) -> None:
        self.folder, self.keys = folder, keys
        self.walks, self.runs = Walks(), Runs()

    def show(self, name: str, status: int = 200, *, error: object = "", **known: Any) -> Response:
        """Return a page with what all pages need."""
        shared = {
            "base": self.keys.base, "csrf": self.keys.form, "folder": str(self.folder),
            "walk": None, "at": "", "same": None, "running": self.runs.running,
            "error": visible(str(error)),
        }  # fmt: skip
        return pages.page(name, shared | known, status)

    def go(self, path: str) -> Response:
        """Return the way to another page; a reload there sends nothing again."""
        return RedirectResponse(f"{self.keys.base}/{path}", 303)

    def takes(
        self, taker: Shower, shower: Shower | None
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that takes a form of this page and no other.

        A form that is refused is shown again by `shower`, with the sentence that says why.
        """

        async def endpoint(request: Request) -> Response:
            async with request.form(max_files=0, max_fields=20_000) as found:
                form = {key: value for key, value in found.items() if isinstance(value, str)}
            if not same(form.pop("csrf", ""), self.keys.form):
                return PlainTextResponse("noisette: a form is taken from this page only.\n", 403)
            return await run_in_threadpool(self.answered, taker, shower, request, form)

        return endpoint

    def answered(self, work: Shower, shower: Shower | None, *given: Any) -> Response:
        """Return the answer of a step; a fault is a sentence on the page of `shower`, or alone."""
        try:
            return work(*given)
        except NoisetteError as error:
            with contextlib.suppress(NoisetteError):  # the first one matters more
                if shower is not None:
                    return shower(*given, error)
            return self.show("sorry.html", 422, error=error)


def _lost(_: Request, error: Exception) -> Response:
    words = "noisette: there is no such page or form.\n"
    return PlainTextResponse(words, getattr(error, "status_code", 400))


def _fault(_: Request, error: Exception) -> Response:
    """Tell of a fault without its text, which may quote a cell."""
    return PlainTextResponse(
        f"noisette: a fault in the program ({type(error).__name__}); its text is not shown, for it "
        "may quote data, and what was charged stands in the ledger.\n",
        500,
    )


def application(folder: Path, keys: Keys, host: str) -> tuple[Guard, Runs]:
    """Return the guarded application, and the trainings that its end must end."""
    studio = Studio(folder, keys)
    steps, results = Steps(studio), Results(studio)

    def post(path: str, taker: Shower, shower: Shower | None = None) -> Route:
        return Route(path, studio.takes(taker, shower), methods=["POST"])

    def get(path: str, shower: Shower) -> Route:
        return Route(path, partial(studio.answered, shower, None), methods=["GET"])

    facts, budget = steps.on(2, steps.show_facts), steps.on(3, steps.show_budget)
    ledger = steps.on(4, steps.show_ledger)
    routes = [
        get("/", steps.show_table), post("/table", steps.take_table, steps.show_table),
        post("/model", results.open),
        get("/w/{walk}/facts", facts),
        post("/w/{walk}/facts", steps.on(2, steps.take_facts), facts),
        get("/w/{walk}/budget", budget),
        post("/w/{walk}/budget", steps.on(3, steps.take_budget), budget),
        post("/w/{walk}/forecast", steps.on(3, steps.show_forecast)),
        post("/w/{walk}/count", steps.on(3, steps.count), budget),
        get("/w/{walk}/ledger", ledger),
        post("/w/{walk}/ledger", steps.on(4, steps.take_ledger), ledger),
        get("/w/{walk}/train", steps.on(5, steps.show_train)),
        post("/w/{walk}/train", steps.on(5, steps.take_train)),
        post("/w/{walk}/again", steps.on(5, steps.again)),
        get("/r/{run}", results.show), get("/r/{run}/progress", results.progress),
        post("/r/{run}/stop", results.stop), get("/r/{run}/report", results.report),
        get("/r/{run}/files/{name}", results.download),
        post("/r/{run}/predict", results.predict, results.show),
        Route("/kit.css", lambda _: Response(stylesheet(), media_type="text/css")),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]  # fmt: skip
    faults = {HTTPException: _lost, Exception: _fault}
    app = Starlette(routes=[Mount(keys.base, routes=routes)], exception_handlers=faults)
    return Guard(app, keys, host), studio.runs

"""The application: which address shows which step, and what a form does."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
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
from noisette.app.studio.guard import Guard, Keys
from noisette.app.studio.results import Results, Shelf
from noisette.app.studio.runs import Runs
from noisette.app.studio.steps import Steps
from noisette.app.studio.walk import Walks
from noisette.errors import NoisetteError
from noisette.report.html import stylesheet

Form = Mapping[str, str]
Shower = Callable[[Request], Response]
Taker = Callable[[Request, Form], Response]
_STATIC = Path(__file__).parent / "static"
_MOST_FIELDS = 20_000


class Studio:
    """What the pages of one studio share: the folder, the walks, the trainings, the secrets.

    Parameters
    ----------
    folder : Path
        Where tables are looked for first, and where models, schemas and ledgers are kept.
    keys : Keys
        The secrets of the address.

    """

    def __init__(self, folder: Path, keys: Keys) -> None:
        self.folder, self.keys = folder, keys
        self.walks, self.runs, self.shelf = Walks(), Runs(), Shelf(folder)

    def show(self, name: str, status: int = 200, **known: Any) -> Response:
        """Return a page with what all pages need."""
        shared = {
            "base": self.keys.base, "csrf": self.keys.form, "folder": str(self.folder),
            "walk": None, "at": "", "error": "", "same": None, "running": self.runs.running,
        }  # fmt: skip
        return pages.page(name, shared | known, status)

    def go(self, path: str) -> Response:
        """Return the way to another page; a reload there sends nothing again."""
        return RedirectResponse(f"{self.keys.base}/{path}", 303)

    def takes(self, taker: Taker) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that takes a form of this page and no other."""

        async def endpoint(request: Request) -> Response:
            async with request.form(max_files=0, max_fields=_MOST_FIELDS) as found:
                form = {key: value for key, value in found.items() if isinstance(value, str)}
            given = form.pop("csrf", "")
            if not hmac.compare_digest(given.encode(), self.keys.form.encode()):
                return PlainTextResponse("noisette: a form is taken from this page only.\n", 403)
            return await run_in_threadpool(self.answered, taker, request, form)

        return endpoint

    def answered(self, work: Callable[..., Response], *given: Any) -> Response:
        """Return the answer of a step; a fault is a page with one sentence."""
        try:
            return work(*given)
        except NoisetteError as error:
            return self.show("sorry.html", 422, error=visible(str(error)))


def _lost(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 400)
    return PlainTextResponse("noisette: there is no such page or form.\n", status)


def _fault(_: Request, error: Exception) -> Response:
    """Tell of a fault without its text, which may quote a cell."""
    return PlainTextResponse(
        f"noisette: a fault in the program ({type(error).__name__}); its text is not shown, for it "
        "may quote data, and what was charged stands in the ledger.\n",
        500,
    )


def _css(_: Request) -> Response:
    return Response(stylesheet(), media_type="text/css")


def application(folder: Path, keys: Keys, host: str) -> tuple[Guard, Runs]:
    """Return the guarded application, and the trainings that its end must end."""
    studio = Studio(folder, keys)
    steps, results = Steps(studio), Results(studio)

    def post(path: str, taker: Taker) -> Route:
        return Route(path, studio.takes(taker), methods=["POST"])

    def get(path: str, shower: Shower) -> Route:
        return Route(path, partial(studio.answered, shower), methods=["GET"])

    routes = [
        get("/", steps.show_table), post("/table", steps.take_table),
        post("/model", results.open),
        get("/w/{walk}/facts", steps.show_facts), post("/w/{walk}/facts", steps.take_facts),
        get("/w/{walk}/budget", steps.show_budget), post("/w/{walk}/budget", steps.take_budget),
        post("/w/{walk}/outlook", steps.show_outlook), post("/w/{walk}/count", steps.count),
        get("/w/{walk}/ledger", steps.show_ledger), post("/w/{walk}/ledger", steps.take_ledger),
        get("/w/{walk}/train", steps.show_train), post("/w/{walk}/train", steps.take_train),
        post("/w/{walk}/again", steps.again),
        get("/r/{run}", results.show), get("/r/{run}/progress", results.progress),
        post("/r/{run}/stop", results.stop), get("/r/{run}/report", results.report),
        get("/r/{run}/files/{name}", results.download), post("/r/{run}/predict", results.predict),
        Route("/kit.css", _css), Mount("/static", StaticFiles(directory=_STATIC)),
    ]  # fmt: skip
    faults = {HTTPException: _lost, Exception: _fault}
    app = Starlette(routes=[Mount(keys.base, routes=routes)], exception_handlers=faults)
    return Guard(app, keys, host), studio.runs

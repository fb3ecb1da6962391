"""Steps 5 and 6: a training under way, what came of it, and the models of earlier days."""

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from noisette._validate import visible
from noisette.app.commands.train import doubts_of, scores_of
from noisette.app.studio import pages
from noisette.app.studio.chosen import choose
from noisette.app.studio.guard import REPORT_POLICY
from noisette.app.studio.runs import SAID, STEPS, Order, StartedTraining, noisette_command
from noisette.app.studio.walk import free_name
from noisette.core.ledger import Ledger
from noisette.errors import InvalidParameter, NoisetteError
from noisette.tables import read_model
from noisette.tables.folders import MODEL, REPORT, TableModel, takes_tables
from noisette.tables.pipeline.table_columns import unread_in

if TYPE_CHECKING:
    from noisette.app.studio.app import Studio

FILES = {
    "model.noisette": "the model",
    "guarantee.json": "the guarantee, for machines",
    "report.html": "the report, for the reviewer",
    "schema.toml": "the schema with what was learnt",
    "card.json": "the scoring card, for programs without noisette",
}
"""What can be downloaded, in words."""
_MOST = 100


@dataclass(frozen=True)
class StoredModel:
    """A model that was trained before; it looks like a training that has ended well."""

    order: Order
    state: str = "done"
    warning: str = ""


def models_in(folder: Path) -> list[str]:
    """Return the names of the model folders in a folder, the newest first."""
    found = []
    try:
        with os.scandir(folder) as items:
            for item in items:
                files = [Path(item.path) / name for name in (MODEL, REPORT)]
                named = item.name.isprintable() and not item.name.startswith(".")
                if named and all(file.is_file() for file in files):
                    # the time of its last rename: the one of its content is that of a day
                    found.append((item.stat().st_ctime, item.name))
    except OSError:
        return []
    return [name for _, name in sorted(found, reverse=True)[:_MOST]]


class Results:
    """The pages of one training and its model."""

    def __init__(self, studio: "Studio") -> None:
        self._studio = studio
        self._opened: dict[str, StoredModel] = {}
        self._predicted: dict[str, list[Path]] = {}

    def _run(self, request: Request) -> StartedTraining:
        run = self._studio.runs.get(request.path_params["run"])
        if run is None:
            raise InvalidParameter("there is no such training in this studio.")
        return run

    def _any(self, request: Request) -> StartedTraining | StoredModel:
        return self._opened.get(request.path_params["run"]) or self._run(request)

    def _done(self, request: Request) -> tuple[str, Path]:
        """Return the key and the folder of a model."""
        run = self._any(request)
        if run.state != "done":
            raise InvalidParameter("this training has no model.")
        return run.order.key, run.order.out

    def open(self, request: Request, form: Mapping[str, str]) -> Response:
        """Show a model of an earlier day; its parts must fit each other."""
        folder, name = self._studio.folder, form.get("model", "")
        if name not in models_in(folder):
            raise InvalidParameter("there is no such model in this folder.")
        read_model(folder / name)
        known = (one for one in self._opened.values() if one.order.out.name == name)
        found = next(known, None) or StoredModel(Order((), folder / name, "", ""))
        self._opened[found.order.key] = found
        return self._studio.go(f"r/{found.order.key}")

    def show(
        self, request: Request, form: Mapping[str, str] | None = None, error: object = ""
    ) -> Response:
        """Show how far it is, how it ended, or the model."""
        run = self._any(request)
        walk = self._studio.walks.get(run.order.walk)
        known: dict[str, Any] = {"run": run, "walk": walk, "steps_said": STEPS, "error": error}
        if isinstance(run, StartedTraining) and run.state != "done":
            run.seen()
            running = run.state == "running"
            return self._studio.show("run.html" if running else "ended.html", at="train", **known)
        fitted, left = read_model(run.order.out), None
        if walk is not None and walk.job.ledger is not None:
            with contextlib.suppress(NoisetteError):
                ledger = Ledger.open(walk.job.ledger)
                left = ledger.remaining if ledger.rule == "sums" else None
        return self._studio.show(
            "result.html", at="result", files=FILES, guarantee=fitted.guarantee,
            target=fitted.schema.target, unit=fitted.schema.protected,
            scores=scores_of(fitted.model), predicted=self._predicted.get(run.order.key, []),
            card=_card(fitted)[1], left=left, form=form or {},
            same=pages.for_model(run.order.out, proba=hasattr(fitted.model, "predict_proba")),
            changed=walk is not None and walk.table.changed,
            headless=bool(fitted.schema.file.names), verdict=_verdict(fitted.model),
            unread=list(unread_in(fitted.model).values()) if takes_tables(fitted.model) else [],
            **known,
        )  # fmt: skip

    def progress(self, request: Request) -> Response:
        """Show the part of the page that tells how far the training is."""
        run = self._run(request)
        run.seen()
        found = self._studio.show("_progress.html", run=run, steps_said=STEPS)
        if run.state != "running":
            found.headers["HX-Refresh"] = "true"
        return found

    def stop(self, request: Request, form: Mapping[str, str]) -> Response:
        """Ask the training to end."""
        run = self._run(request)
        run.stop()
        run.wait(5.0)
        return self._studio.go(f"r/{run.order.key}")

    def report(self, request: Request) -> Response:
        """Show the report as it was written; it may run no script."""
        text = (self._done(request)[1] / REPORT).read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"content-security-policy": REPORT_POLICY})

    def download(self, request: Request) -> Response:
        """Hand over one file of the model folder, the card, or predictions."""
        (key, out), name = self._done(request), request.path_params["name"]
        if name == "card.json":
            card, refused = _card(read_model(out))
            if card is None:
                raise InvalidParameter(refused)
            named = quote(f"{out.name}-card.json")
            headers = {"content-disposition": f"attachment; filename*=utf-8''{named}"}
            text = json.dumps(card, indent=1, allow_nan=False) + "\n"
            return Response(text, media_type="application/json", headers=headers)
        made = {path.name: (path, path.name) for path in self._predicted.get(key, [])}
        made |= {file: (out / file, f"{out.name}-{file}") for file in FILES}
        if name not in made:
            raise InvalidParameter("there is no such file.")
        path, named = made[name]
        if not path.is_file():
            raise InvalidParameter(f"{visible(str(path))} is not there any more.")
        return FileResponse(path, filename=named, media_type="application/octet-stream")

    def predict(self, request: Request, form: Mapping[str, str]) -> Response:
        """Predict another table with the command that the page shows."""
        key, model = self._done(request)
        fitted, folder = read_model(model), self._studio.folder
        table = choose(
            form.get("path", ""), folder, header=form.get("header", "auto"),
            encoding=fitted.schema.file.encoding,
        )  # fmt: skip
        out = free_name(folder, f"{table.stem}-predictions", ".csv")
        words = ["--proba"] * hasattr(fitted.model, "predict_proba")
        words += ["--no-header"] * (not table.header)
        done = subprocess.run(
            noisette_command("predict", str(model), str(table.path), *words, "--out", str(out)),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, errors="replace", check=False, cwd=folder,
        )  # fmt: skip
        if done.returncode:  # what is not our own sentence may quote a cell
            said = [line for line in done.stderr.splitlines() if line.startswith(SAID)]
            raise InvalidParameter((said or ["nothing was predicted."])[-1].removeprefix(SAID))
        self._predicted.setdefault(key, []).append(out)
        return self._studio.go(f"r/{key}#predict")


def _card(fitted: TableModel) -> tuple[dict[str, Any] | None, str]:
    """Return the scoring card, or why there is none."""
    from noisette.tables.pipeline.card import card_of

    try:
        return card_of(fitted.model), ""
    except InvalidParameter as error:
        return None, str(error)


def _verdict(model: Any) -> list[str]:
    """Return what speaks against the model: no better than one answer, a label that is rare."""
    spoken = model.test_.verdict() if hasattr(model, "test_") else ""
    (rare, cut), advice = doubts_of(model), ": sort the predictions by their probability instead."
    rare = [note.partition(": rank ")[0].rstrip(".") + advice for note in rare]
    return [visible(words) for words in (spoken, *rare, *cut) if words]

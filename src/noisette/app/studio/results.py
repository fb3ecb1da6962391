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
from noisette.app.commands.console import refuse
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


class Shelf:
    """The model folders in one folder, and those of them that were opened.

    Parameters
    ----------
    folder : Path
        Where models are kept.

    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.opened: dict[str, StoredModel] = {}

    def names(self) -> list[str]:
        """Return the names of the model folders, the newest first."""
        found = []
        try:
            with os.scandir(self._folder) as items:
                for item in items:
                    files = [Path(item.path) / name for name in (MODEL, REPORT)]
                    named = item.name.isprintable() and not item.name.startswith(".")
                    if named and all(file.is_file() for file in files):
                        # the time of its last rename: the one of its content is that of a day
                        found.append((item.stat().st_ctime, item.name))
        except OSError:
            return []
        return [name for _, name in sorted(found, reverse=True)[:_MOST]]

    def open(self, name: str) -> StoredModel:
        """Open one of the models by the name of its folder; its parts must fit each other."""
        refuse((name not in self.names(), "there is no such model in this folder."))
        read_model(self._folder / name)
        known = (one for one in self.opened.values() if one.order.out.name == name)
        found = next(known, None) or StoredModel(Order((), self._folder / name, "", ""))
        self.opened[found.order.key] = found
        return found


class Results:
    """The pages of one training and its model."""

    def __init__(self, studio: "Studio") -> None:
        self._studio = studio
        self._predicted: dict[str, list[Path]] = {}

    def _run(self, request: Request) -> StartedTraining:
        run = self._studio.runs.get(request.path_params["run"])
        if run is None:
            raise InvalidParameter("there is no such training in this studio.")
        return run

    def _done(self, request: Request) -> StartedTraining | StoredModel:
        run = self._studio.shelf.opened.get(request.path_params["run"]) or self._run(request)
        refuse((run.state != "done", "this training has no model."))
        return run

    def show(self, request: Request) -> Response:
        """Show how far it is, how it ended, or the model."""
        stored = self._studio.shelf.opened.get(request.path_params["run"])
        return self._show(stored or self._run(request))

    def open(self, request: Request, form: Mapping[str, str]) -> Response:
        """Show a model of an earlier day."""
        return self._studio.go(f"r/{self._studio.shelf.open(form.get('model', '')).order.key}")

    def _show(self, run: StartedTraining | StoredModel, status: int = 200, **more: Any) -> Response:
        known: dict[str, Any] = {
            "run": run, "walk": self._studio.walks.get(run.order.walk), "steps_said": STEPS,
            "error": "", "same": None,
        }  # fmt: skip
        if isinstance(run, StartedTraining) and run.state == "running":
            run.seen()
            return self._studio.show("run.html", status, at="train", **known | more)
        if run.state != "done":
            return self._studio.show("ended.html", status, at="train", **known | more)
        fitted = read_model(run.order.out)
        walk = known["walk"]
        known |= {
            "files": FILES, "guarantee": fitted.guarantee, "target": fitted.schema.target,
            "unit": fitted.schema.protected, "scores": scores_of(fitted.model),
            "predicted": self._predicted.get(run.order.key, []), "card": _card(fitted)[1],
            "left": self._left(run), "form": {},
            "same": pages.for_model(run.order.out, proba=_has_proba(fitted)),
            "changed": walk is not None and walk.table.changed,
            "headless": bool(fitted.schema.file.names), "verdict": _verdict(fitted.model),
            "unread": list(unread_in(fitted.model).values()) if takes_tables(fitted.model) else [],
        }  # fmt: skip
        return self._studio.show("result.html", status, at="result", **known | more)

    def _left(self, run: StartedTraining | StoredModel) -> tuple[float, float] | None:
        walk = self._studio.walks.get(run.order.walk)
        if walk is not None and walk.job.ledger is not None:
            with contextlib.suppress(NoisetteError):
                ledger = Ledger.open(walk.job.ledger)
                return ledger.remaining if ledger.rule == "sums" else None
        return None

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
        run = self._done(request)
        text = (run.order.out / "report.html").read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"content-security-policy": REPORT_POLICY})

    def download(self, request: Request) -> Response:
        """Hand over one file of the model folder, the card, or predictions."""
        run, name = self._done(request), request.path_params["name"]
        stem = run.order.out.name
        if name == "card.json":
            card, refused = _card(read_model(run.order.out))
            refuse((card is None, refused))
            text = json.dumps(card, indent=1, allow_nan=False) + "\n"
            named = quote(f"{stem}-card.json")
            headers = {"content-disposition": f"attachment; filename*=utf-8''{named}"}
            return Response(text, media_type="application/json", headers=headers)
        if name in FILES:
            return _file(run.order.out / name, f"{stem}-{name}")
        for path in self._predicted.get(run.order.key, []):
            if path.name == name:
                return _file(path, path.name)
        raise InvalidParameter("there is no such file.")

    def predict(self, request: Request, form: Mapping[str, str]) -> Response:
        """Predict another table with the command that the page shows."""
        run = self._done(request)
        try:
            header = form.get("header", "auto")
            fitted = read_model(run.order.out)
            written = fitted.schema.file
            table = choose(
                form.get("path", ""), self._studio.folder, header=header, encoding=written.encoding
            )
            out = free_name(self._studio.folder, f"{table.stem}-predictions", ".csv")
            words = ["--proba"] * _has_proba(fitted) + ["--no-header"] * (not table.header)
            done = subprocess.run(
                noisette_command("predict", str(run.order.out), str(table.path), *words,
                                 "--out", str(out)),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                text=True, errors="replace", check=False, cwd=self._studio.folder,
            )  # fmt: skip
            # what is not our own sentence may quote a cell
            said = [line for line in done.stderr.splitlines() if line.startswith(SAID)]
            refuse((done.returncode, (said or ["nothing was predicted."])[-1].removeprefix(SAID)))
        except NoisetteError as error:
            return self._show(run, error=visible(str(error)), form=form)
        self._predicted.setdefault(run.order.key, []).append(out)
        return self._studio.go(f"r/{run.order.key}#predict")


def _file(path: Path, name: str) -> Response:
    refuse((not path.is_file(), f"{visible(str(path))} is not there any more."))
    return FileResponse(path, filename=name, media_type="application/octet-stream")


def _card(fitted: TableModel) -> tuple[dict[str, Any] | None, str]:
    """Return the scoring card, or why there is none."""
    from noisette.tables.pipeline.card import card_of

    try:
        return card_of(fitted.model), ""
    except InvalidParameter as error:
        return None, str(error)


def _has_proba(fitted: TableModel) -> bool:
    return hasattr(fitted.model, "predict_proba")


def _verdict(model: Any) -> list[str]:
    """Return what speaks against the model: no better than one answer, a label that is rare."""
    spoken = model.test_.verdict() if hasattr(model, "test_") else ""
    rare, cut = doubts_of(model)
    advice = ": sort the predictions by their probability instead."
    rare = [note.partition(": rank ")[0].rstrip(".") + advice for note in rare]
    return [visible(words) for words in (spoken, *rare, *cut) if words]

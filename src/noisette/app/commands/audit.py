"""What ``noisette audit`` does: find the subject, attack its claim, report."""

import importlib
import inspect
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisette import _files
from noisette._validate import refuse
from noisette.app.commands.console import Stopped
from noisette.errors import InvalidParameter

if TYPE_CHECKING:
    from noisette.audit.findings import Finding, Verdict


def audit(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODEL_OR_IMPORT_PATH",
            help="A model file, a folder that noisette train wrote, a class such as "
            "noisette.LogisticRegression, or a function without arguments that returns an "
            "estimator, such as mypackage.module:make_model.",
        ),
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help="The claimed epsilon. A model or a factory may bring its own."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="The claimed delta; 0 is a pure claim.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Fits in each world for the black-box attacks.")
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="A false alarm is at most as likely as 1 - this.")
    ] = 0.99,
    long: Annotated[
        bool, typer.Option("--long", help="Run the long battery: more attacks and runs.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML page with a figure here.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes; -1 is one for each core.")] = 1,
    adjacency: Annotated[
        str | None,
        typer.Option(
            help="The neighbours that another library's claim speaks of (default: its parameter "
            "of this name, else replace-one)."
        ),
    ] = None,
    norm_bound: Annotated[
        float | None,
        typer.Option(
            help="The bound on the rows that another library's claim presumes (default: its "
            "parameter of this name, else 1)."
        ),
    ] = None,
    persons: Annotated[
        bool,
        typer.Option(
            "--persons",
            help="The claim is about all rows of one person; the fit must take persons.",
        ),
    ] = False,
) -> None:
    """Attack a claimed epsilon, ours or anybody's.

    Exit code 1 if it is refuted, 3 if no attack fitted the model.

    [bold]Example[/bold]: noisette audit noisette.LogisticRegression --epsilon 1
    --report audit.html
    """
    from noisette import _validate
    from noisette.audit import AuditReport, check_estimator
    from noisette.audit.two_worlds import LEAST_RUNS
    from noisette.audit.whitebox.from_outside import check_tables
    from noisette.audit.worlds import jobs as processes

    whole = partial(_validate.integer, "runs", least=LEAST_RUNS)
    for value, check in ((epsilon, _validate.epsilon), (delta, _validate.delta), (runs, whole)):
        if value is not None:
            check(value)
    _validate.fraction("confidence", confidence)
    processes(jobs)
    if report is not None:
        refuse(
            (report.suffix.lower() not in (".html", ".htm"),
             f"--report must end in .html; got {str(report)!r}."),
            (not report.parent.is_dir(), f"the folder {report.parent} does not exist."),
            (not os.access(report.parent, os.W_OK),
             f"{report} cannot be written (Permission denied)."),
        )  # fmt: skip
    try:
        first, attacks, guarantee = tuple["Finding", ...](), tuple["Finding", ...](), None
        if os.path.exists(target) or os.sep in target or target.endswith(".noisette"):
            estimator, guarantee, first = _from_file(target, epsilon, delta, persons)
            epsilon, delta = first[0].claim
            persons = persons or (guarantee is not None and guarantee.unit == "person")
        else:
            estimator = _from_path(target, epsilon, delta)
        if estimator is not None and hasattr(estimator, "schema"):
            attacks = check_tables(
                estimator, claim=first[0].claim, runs=runs or (1000 if long else 100),
                confidence=confidence, n_jobs=jobs, progress=not json,
            )  # fmt: skip
        elif estimator is not None:
            attacks = check_estimator(
                estimator, epsilon=epsilon, delta=delta, runs=runs, confidence=confidence,
                long=long, n_jobs=jobs, progress=not json, adjacency=adjacency,
                norm_bound=norm_bound, persons=persons,
            ).findings  # fmt: skip
        found = AuditReport(target, (*first, *attacks), "person" if persons else "record")
    except KeyboardInterrupt:
        raise Stopped("stopped; nothing was written.") from None
    if report is not None:
        from noisette.audit.page import html

        _files.write(report, html(found, guarantee))
    print(found.to_json() if json else found)
    if report is not None and not json:
        print(f"report written to {report}")
    raise typer.Exit({"violated": 1, "not applicable": 3}.get(found.verdict, 0))


# --- what to audit -------------------------------------------------------------------------------


def _from_file(
    target: str, epsilon: float | None, delta: float | None, persons: bool
) -> tuple[Any, Any, tuple["Finding", ...]]:
    """Return an unfitted estimator like the stored one, its guarantee, and what the file showed."""
    from sklearn.base import clone

    from noisette.audit import Finding
    from noisette.tables.folders import load_model, read_model

    path = Path(target)
    if not path.exists():
        raise InvalidParameter(f"the file {target} does not exist.")
    try:
        model = read_model(path).model if path.is_dir() else load_model(path)
    except InvalidParameter as error:
        if "would be wrong" not in str(error):  # damaged; only a guarantee below its plan is false
            raise
        claim = epsilon or 0.0, delta or 0.0
        return None, None, (Finding("model file", claim, None, 1.0, "violated", 0, str(error)),)
    promise = model.privacy_
    claim = (
        promise.epsilon if epsilon is None else epsilon,
        promise.delta if delta is None else delta,
    )
    needed = promise.epsilon_at(claim[1])
    kept = needed <= claim[0] * (1.0 + 1e-9)
    detail = (
        f"The guarantee in the file follows from the plan in it: epsilon = {needed:.6g} at "
        f"delta = {claim[1]:g} under {promise.adjacency}, claimed is {claim[0]:.6g}."
    )
    if promise.seeded:
        kept, detail = False, "The noise of this model came from a fixed seed, so it hides nobody."
    if persons and promise.unit != "person":
        kept, detail = False, "The guarantee in the file is about single rows, not about persons."
    verdict: Verdict = "consistent" if kept else "violated"
    return clone(model), promise, (Finding("model file", claim, None, 1.0, verdict, 0, detail),)


def _from_path(target: str, epsilon: float | None, delta: float | None) -> Any:
    """Return the estimator that an import path names, built with the claimed epsilon."""
    module, colon, name = target.partition(":")
    if not colon:
        module, _, name = target.rpartition(".")
    refuse(
        (not module or not name,
         f"{target!r} is neither a file nor an import path such as package.module:name."),
    )  # fmt: skip
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does, so that one's own module is found
    try:
        found = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise InvalidParameter(f"cannot import {target}: {error}.") from None
    except AttributeError:
        raise InvalidParameter(f"the module {module} has no {name}.") from None
    if not isinstance(found, type) and hasattr(found, "fit"):
        return found
    refuse((not callable(found), f"{target} is neither a class nor a function nor an estimator."))
    options: dict[str, float] = {}
    if isinstance(found, type):
        known = inspect.signature(found).parameters
        wide = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values())
        if epsilon is not None and ("epsilon" in known or wide):
            options["epsilon"] = epsilon
        if delta is not None and delta > 0.0 and "delta" in known:
            options["delta"] = delta
        if found.__module__.startswith("noisette.") and "norm_bound" in known:
            options["norm_bound"] = 1.0  # the attacks make rows for the bound, so any one will do
    try:
        made = found(**options)
    except TypeError as error:
        built = found.__name__ if isinstance(found, type) else target
        raise InvalidParameter(f"{built} cannot be built: {error}.") from None
    if not isinstance(found, type) and not hasattr(made, "fit"):
        raise InvalidParameter(f"{target} returned a {type(made).__name__}, which has no fit.")
    return made

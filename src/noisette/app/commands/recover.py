"""``noisette recover``: results that were paid for and whose command was stopped."""

import contextlib
import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisette._validate import visible
from noisette.app.commands import options as opt
from noisette.errors import InvalidParameter, NoisetteError

if TYPE_CHECKING:
    from noisette.tables.drafts import Draft


def recover(
    folder: Annotated[
        Path,
        typer.Argument(metavar="[FOLDER]", help="A model's folder, the one it is in, or a draft."),
    ] = Path(),
    ledger: Annotated[
        str | None, typer.Option(help="Note in this ledger that the results were collected.")
    ] = None,
    json: opt.JsonOption = False,
) -> None:
    """Bring back results that were paid for and whose command was stopped before the end.

    A whole result gets its name, or a free one beside it; what is not whole is removed. Nothing is
    charged. A draft of another machine, or on a disk without locks, is left alone unless FOLDER is
    that draft.

    [bold]Example[/bold]: noisette recover models --ledger people.ledger
    """
    drafts = _found(folder)
    said = [_finished(draft, ledger, asked=draft.path == _real(folder)) for draft in drafts]
    if json:
        print(json_module.dumps({"drafts": said}))
        return
    for each in said:
        print(visible(f"{each['draft']}: {each['state']}"))
    if not said:
        print(visible(f"there is nothing to recover in {folder}"))


def _real(path: Path) -> Path:
    from noisette import _validate

    return _validate.real_path(path)


def _found(folder: Path) -> "list[Draft]":
    """Return the drafts that FOLDER names: itself, those of its model, and those in it."""
    from noisette.tables.drafts import Draft, left_behind

    place = _real(folder)
    with contextlib.suppress(InvalidParameter):
        if place.is_dir():
            return [Draft(place)]
    found = []
    try:
        if place.parent != place:
            found += left_behind(place.parent, place)
        if place.is_dir():
            found += left_behind(place)
        elif not found:
            raise InvalidParameter(f"there is no folder {folder}, and no draft of it.")
    except OSError as error:
        raise InvalidParameter(f"{folder} cannot be read ({error.strerror}).") from None
    return found


def _finished(draft: "Draft", ledger: str | None, *, asked: bool) -> dict[str, Any]:
    """Finish one draft; say what became of it."""
    from noisette.tables import read_model

    result: dict[str, Any] = {"draft": str(draft.path), "place": None}
    if not (draft.here or asked):
        return result | {"state": "made on another machine; recover it there, or name it here"}
    with draft.unused(asked=asked) as free:
        if not free and draft.lockless:
            return result | {"state": "perhaps in use, for there are no locks here; else name it"}
        if not free:
            return result | {"state": "in use; left alone"}
        try:
            if not draft.is_whole():
                draft.end()
                return result | {"state": "not finished: nothing to bring back; removed"}
            if draft.new.is_dir():
                read_model(draft.new)
            place = draft.give_name()
            draft.end()
        except OSError as error:
            return result | {"state": f"cannot be finished now ({error.strerror}); left as it is"}
        except NoisetteError as error:
            return result | {"state": f"damaged, and left as it is: {error}"}
    state = f"whole, and now {place}"
    if ledger is not None:
        state += _collected(place, ledger)
    return result | {"state": state, "place": str(place)}


def _collected(place: Path, address: str) -> str:
    """Note the result in its ledger, by the receipt beside it; say so."""
    import hashlib

    from noisette.audit.receipts import read_receipt
    from noisette.core.ledger import Ledger
    from noisette.tables.folders import MODEL, RECEIPT

    single = not place.is_dir()
    try:
        receipt, ledger = read_receipt(place if single else place / RECEIPT), Ledger.open(address)
        number = 0 if receipt is None else receipt["charge"]
        if ledger.receipt(number) != receipt:
            return "; the ledger has no charge for it"
        model = (place if single else place / MODEL).read_bytes()
        ledger.collect(number, hashlib.sha256(model).hexdigest())
    except (OSError, NoisetteError):
        return "; the ledger has no charge for it, or cannot be read"
    return "; the ledger notes that it was collected"

"""A ledger that knows how far a payment went, so that every end of a command can say so.

A charge is never returned. If a command stops after it, by a full disk or by Ctrl-C, the person
must hear whether the budget is gone, and whether what it bought is there. ``noisette recover``
brings it back.
"""

import contextlib
import hashlib
import json as json_text
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from noisette import _files, _validate
from noisette.app.commands import KEPT, console
from noisette.app.commands import options as opt
from noisette.app.commands.console import Signalled, Stopped, as_ctrl_c, check_file, reply, warn
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.core.permit import Permit
from noisette.core.storage import is_address
from noisette.errors import InvalidParameter, LedgerError, NoisetteError

if TYPE_CHECKING:
    from noisette.tables.drafts import Draft

_CLAIMS = re.compile(
    r"[.;,]?\s*(and |but )?(nothing was (charged|written)|it may have been charged)[^.;]*", re.I
)


class WatchedLedger(Ledger):
    """A `Ledger` that keeps what `outcome` is computed from.

    `asked` says that a charge was tried and not refused; `last_charge` that it was booked; `draft`
    is where the result is made; `printing` that all but the printing is done, and `printed` that
    it is.
    """

    _awaits = True
    asked = printing = printed = False
    draft: "Draft | None" = None
    paid: Mapping[str, Any] | None = None
    telling = False
    """Whether a program wants to hear of every step."""

    columns: Mapping[str, str] | None = None
    """The kinds of the table's columns, which the books remember with the charge."""

    def tell(self, step: str) -> None:
        """Tell a program of a step; the names of steps are all that it ever hears."""
        if self.telling:
            with contextlib.suppress(OSError):  # whoever listened has gone: no reason to stop
                print(f"{console.PROGRESS}{step}", file=sys.stderr, flush=True)

    def about(self, columns: Mapping[str, str], same_people: bool | None) -> None:
        """Say which table it is; refuse one that another ledger knows, until somebody answers."""
        self.columns = columns if self.lasting else None
        for other in self.matching(columns) if self.lasting else ():
            if same_people is None:
                raise InvalidParameter(
                    f"{other} keeps account of a table with the same columns; say --same-people "
                    "(what both ledgers spend adds up for them) or --other-people, which both "
                    "reports will show. Nothing was charged."
                )
            self.answer(other, same=same_people)

    def charge(self, plan: Any, **options: Any) -> Permit:
        """Charge as usual and remember it, with the receipt: later it might not be had."""
        if self.columns is not None:
            self.remember(self.columns)
        self.asked = True  # before, so that a Ctrl-C during the commit is not taken for no charge
        self.tell("charging")
        try:
            permit = super().charge(plan, **options)
        except NoisetteError as error:  # the store knows, and says, whether it was booked
            self.asked = self.last_charge is not None
            if "may have been charged" not in str(error):
                self.tell("refused")
            raise
        with contextlib.suppress(Exception):  # tried again later
            self._take_receipt(None if self.draft is None else self.draft.new)
        self.tell("charged")
        return permit

    def _take_receipt(self, folder: Path | None) -> None:
        """Ask for the receipt, once, and put it beside the model to come."""
        from noisette.tables.folders import RECEIPT

        if self.paid is None and self.last_charge is not None:
            self.paid = self.receipt(self.last_charge)
            if self.paid is not None and folder is not None and folder.is_dir():
                _files.write(folder / RECEIPT, json_text.dumps(self.paid, indent=1) + "\n")
                _files.undate(folder)

    def note_kept(self, file: Path) -> None:
        """Write into the ledger that the result was collected; a failure is a warning."""
        if not self.lasting or self.last_charge is None:
            return
        from noisette.models.files import IN_FOLDER

        try:
            self._take_receipt(file.parent if file.name == IN_FOLDER else None)
            self.collect(self.last_charge, hashlib.sha256(file.read_bytes()).hexdigest())
        except Exception as error:
            reason = _CLAIMS.sub("", str(error)) if isinstance(error, NoisetteError) else "a fault"
            warn(f"the ledger could not note that the result was collected ({reason}).")


def shown_place(place: str, ledger: Ledger) -> str:
    """Return the ledger's name for people: as it was typed, or an address without a password."""
    return ledger.title if is_address(place) else place


@contextlib.contextmanager
def spending(
    place: str | None, epsilon: float, delta: float, adjacency: Adjacency, table: str = ""
) -> Iterator[WatchedLedger]:
    """Yield the ledger at `place`, or one for this result alone; say what a failure has cost."""
    if place is None:
        ledger = WatchedLedger(epsilon, delta, adjacency=adjacency, table=table)
    elif not is_address(place) and not Path(place).exists():
        raise LedgerError(
            f"there is no ledger {place}; start one with: noisette ledger {place} --epsilon TOTAL."
        )
    else:
        ledger = cast(WatchedLedger, WatchedLedger.open(place, adjacency=adjacency, table=table))
    try:
        with as_ctrl_c():
            yield ledger
        console.finished = outcome(place, ledger)[0]
    except (KeyboardInterrupt, Exception) as error:
        words, code = outcome(place, ledger)
        if isinstance(error, KeyboardInterrupt):
            ended = error.args[0] if isinstance(error, Signalled) else 130
            raise Stopped(f"stopped; {words}.", code or ended) from None
        if isinstance(error, OSError | UnicodeEncodeError):
            if ledger.printing:
                raise
            reason = getattr(error, "strerror", None) or type(error).__name__
            said = f"the result could not be written ({reason})"
        elif isinstance(error, NoisetteError):
            if code is None and not (ledger.lasting and ledger.asked):
                raise
            said = _CLAIMS.sub("", str(error)).rstrip(".; ")
        else:
            error.add_note(words)
            if code is not None:
                error.exit_code = code  # type: ignore[attr-defined]
            raise
        raise Stopped(f"{said}; {words}.", code or 2) from None


@contextlib.contextmanager
def keeping(
    budget: WatchedLedger, out: Path | None, usual: str, *, force: bool = False
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield what puts an answer on the disk: for good, or without `out` until it is printed."""
    from noisette.tables.drafts import clear_away, draft_of

    target = Path(f"{usual}-{secrets.token_hex(3)}.json") if out is None else out
    check_file(target, force=force)
    if clear_away(_validate.real_path(target)) is not None:
        raise InvalidParameter(
            f"a command that was stopped left what is to be in {target}, which is paid for; bring "
            f"it back with: noisette recover {target}."
        )
    with draft_of(target) as draft:
        draft.reserve(1 << 18)  # bytes of scores or counts
        budget.draft = draft

        def keep(answer: dict[str, Any]) -> None:
            draft.make_room()
            _files.write(draft.new, json_text.dumps({**answer, "receipt": budget.paid}) + "\n")
            if out is not None:
                draft.give_name(force=force)

        yield keep
        sys.stdout.flush()
        budget.printed = True
        if draft.place is not None:
            budget.note_kept(draft.place)
        if out is None:
            draft.discard()


def outcome(place: str | None, ledger: WatchedLedger) -> tuple[str, int | None]:
    """Return what is true of money and result, and the exit code if a command stops with it."""
    name = "" if place is None else shown_place(place, ledger)
    paid, draft = f", and {name} was charged for it" if name else "", ledger.draft
    if draft is not None and draft.place is not None:
        unnamed = f" (noisette recover {draft.path} gives it a name)"
        return (
            f"the result is whole, in {draft.place}{unnamed * (draft.place == draft.new)}{paid}",
            KEPT,
        )
    if ledger.printed:
        return f"the answer was printed{paid}", KEPT
    if not name or not ledger.asked:
        return "nothing was written and nothing was charged", None
    state, listed = "may have been charged", ""
    if ledger.last_charge is not None:
        state, listed = "was charged", f": noisette ledger {name} lists it as paid, not collected"
    return f"nothing was written, but {name} {state} and a charge is never returned{listed}", None


# --- results that were paid for and whose command was stopped ----------------------


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
    place = _validate.real_path(folder)
    said = [_finished(each, ledger, asked=each.path == place) for each in _found(folder, place)]
    lines = [f"{each['draft']}: {each['state']}" for each in said]
    reply({"drafts": said}, *(lines or [f"there is nothing to recover in {folder}"]), as_json=json)


def _found(folder: Path, place: Path) -> "list[Draft]":
    """Return the drafts that FOLDER names: itself, those of its model, and those in it."""
    from noisette.tables.drafts import Draft, left_behind

    with contextlib.suppress(InvalidParameter):
        if place.is_dir():
            return [Draft(place)]
    try:
        found = left_behind(place.parent, place)
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

    place, state = None, "not finished: nothing to bring back; removed"
    with contextlib.ExitStack() as held:
        if not (draft.here or asked):
            state = "made on another machine; recover it there, or name it here"
        elif not held.enter_context(draft.unused(asked=asked)):
            unlocked = "perhaps in use, for there are no locks here; else name it"
            state = unlocked if draft.lockless else "in use; left alone"
        else:
            try:
                if draft.is_whole():
                    if draft.new.is_dir():
                        read_model(draft.new)
                    place = draft.give_name()
                    state = f"whole, and now {place}"
                draft.end()
            except OSError as error:
                place, state = None, f"cannot be finished now ({error.strerror}); left as it is"
            except NoisetteError as error:
                place, state = None, f"damaged, and left as it is: {error}"
    if place is not None and ledger is not None:
        state += _collected(place, ledger)
    return {
        "draft": str(draft.path), "place": None if place is None else str(place), "state": state,
    }  # fmt: skip


def _collected(place: Path, address: str) -> str:
    """Note the result in its ledger, by the receipt beside it; say so."""
    from noisette.audit.receipts import read_receipt
    from noisette.tables.folders import MODEL, RECEIPT

    model, paid = (place / MODEL, place / RECEIPT) if place.is_dir() else (place, place)
    try:
        receipt, ledger = read_receipt(paid), Ledger.open(address)
        number = 0 if receipt is None else receipt["charge"]
        if ledger.receipt(number) != receipt:
            return "; the ledger has no charge for it"
        ledger.collect(number, hashlib.sha256(model.read_bytes()).hexdigest())
    except (OSError, NoisetteError):
        return "; the ledger has no charge for it, or cannot be read"
    return "; the ledger notes that it was collected"

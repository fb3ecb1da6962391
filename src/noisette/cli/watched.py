"""A ledger that remembers whether it was charged, so that a failure can say so.

A charge is never returned. If training stops after it, by a full disk or by Ctrl-C, the person must
hear that the budget is gone although there is no model.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from noisette.adjacency import Adjacency
from noisette.cli.stopping import Stopped, as_ctrl_c, code_of
from noisette.errors import LedgerError, NoisetteError
from noisette.privacy import Ledger, Permit
from noisette.storage import is_address

__all__ = ["WatchedLedger", "shown_place", "spending"]


class WatchedLedger(Ledger):
    """A `Ledger` with `asked` (a charge was tried and not refused), `charged` and `written`."""

    asked = False
    charged = False
    written = False
    tell: Callable[[str], None] = staticmethod(lambda step: None)

    def charge(self, plan: Any, **options: Any) -> Permit:
        """Charge as usual and remember it."""
        self.asked = True  # before, so that a Ctrl-C during the commit is not taken for no charge
        self.tell("charging")
        try:
            permit = super().charge(plan, **options)
        except NoisetteError:
            self.asked = self.charged
            self.tell("refused")
            raise
        self.charged = True
        self.tell("charged")
        return permit


def shown_place(place: str, ledger: Ledger) -> str:
    """Return the ledger's name for people: as it was typed, or an address without a password."""
    return ledger.title if is_address(place) else place


@contextlib.contextmanager
def spending(
    place: str | None, epsilon: float, delta: float, adjacency: Adjacency, table: str = ""
) -> Iterator[WatchedLedger]:
    """Yield the ledger at `place`, or one for this model alone; say what a failure has cost."""
    if place is None:
        ledger = WatchedLedger(epsilon, delta, adjacency=adjacency, table=table)
    elif not is_address(place) and not Path(place).exists():
        raise LedgerError(
            f"there is no ledger {place}; start one with: noisette ledger {place} --epsilon TOTAL."
        )
    else:
        opened = WatchedLedger.open(place, adjacency=adjacency, table=table)
        assert isinstance(opened, WatchedLedger)
        ledger = opened
    try:
        with as_ctrl_c():
            yield ledger
    except KeyboardInterrupt as stop:
        raise Stopped(f"stopped; {_cost(place, ledger)}.", code_of(stop)) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        cost = _cost(place, ledger)
        raise NoisetteError(f"the model could not be written ({reason}); {cost}.") from None
    except NoisetteError as error:
        if not ledger.lasting or not ledger.asked:
            raise
        raise NoisetteError(f"{str(error).rstrip('.')}; {_cost(place, ledger)}.") from None
    except Exception as error:
        error.add_note(_cost(place, ledger))
        raise


def _cost(place: str | None, ledger: WatchedLedger) -> str:
    if ledger.written:
        return "the model was written"
    if place is None or not ledger.asked:
        return "nothing was written and nothing was charged"
    state = "was charged" if ledger.charged else "may have been charged"
    name = shown_place(place, ledger)
    return f"nothing was written, but {name} {state} and a charge is never returned"

"""A walk: what one person has said so far about one table, step by step.

A walk is changed under its lock and read as a whole. Going back to a step and sending it again
takes back what was said after it: a plan that was confirmed keeps its own order.
"""

import contextlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from noisette import _files, _validate
from noisette._validate import refuse, visible
from noisette.app.job import Job
from noisette.app.studio.chosen import ChosenTable
from noisette.app.studio.forecast import job_from
from noisette.app.studio.runs import Order
from noisette.core.ledger import Ledger
from noisette.core.storage import is_address
from noisette.errors import InvalidParameter, LedgerError
from noisette.tables import Schema, toml

_MOST = 50


@dataclass(frozen=True)
class Walk:
    """One way from a table to a model.

    `job` grows with every step. `named` says that an order, maybe a confirmed one, names its
    schema; `total` is that of a ledger which the page started; `counted` are numbers that were
    counted in the table and so are no guess.
    """

    table: ChosenTable
    key: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    answers: dict[str, str] = field(default_factory=dict)
    job: Job = Job()
    schema: Schema | None = None
    order: Order | None = None
    total: tuple[float, float] | None = None
    named: bool = False
    counted: frozenset[int] = frozenset()

    @property
    def reached(self) -> int:
        """The number of the first step that is still to be done."""
        done = (self.table, self.schema, self.job.epsilons, self.job.ledger, self.order)
        return next((k for k, part in enumerate(done, start=1) if not part), 5)

    @property
    def facts(self) -> Schema:
        """What step 2 says, for those who have reached step 3."""
        assert self.schema is not None
        return self.schema

    @property
    def confirmed(self) -> Order:
        """What step 5 shows and a click starts, for those who have reached it."""
        assert self.order is not None
        return self.order

    def with_facts(self, answers: dict[str, str], schema: Schema, folder: Path) -> "Walk":
        """Return the walk after step 2; the schema is written, for the commands name its file.

        A file that an order names is not written again: what was confirmed is what will run.
        """
        self.table.check_same()
        known = None if self.named else self.job.schema
        file = known or free_name(folder, f"{self.table.stem}.schema", ".toml")
        try:
            _files.write(file, toml.dumps(schema.source))
        except OSError as error:
            raise InvalidParameter(
                f"{visible(str(file))} cannot be written ({error.strerror}); nothing was charged."
            ) from None
        job = replace(
            self.start, table=self.table.path, schema=file, learn=True,
            no_header=not self.table.header,
        )  # fmt: skip
        return replace(self, answers=answers, schema=schema, job=job, order=None, named=False)

    @property
    def start(self) -> Job:
        """The job without what follows the budget."""
        return replace(self.job, ledger=None, out=None)

    def ordered(self, folder: Path) -> "Walk":
        """Return the walk with a new order for another model, which may be confirmed once."""
        self.table.check_same()
        out = free_name(folder, f"{self.table.stem}-model")
        job = replace(self.job, out=out)
        order = Order(tuple(job.to_words("train")), out, visible(str(job.ledger)), self.key)
        return replace(self, job=job, order=order, named=True)

    def check_facts(self) -> None:
        """Refuse a schema file that is not what was said on the cards any more."""
        file = self.job.schema
        with contextlib.suppress(OSError, ValueError):
            if file and file.read_text(encoding="utf-8") == toml.dumps(self.facts.source):
                return
        raise InvalidParameter(
            f"{visible(str(file))} was changed or removed since step 2; send step 2 again; "
            "nothing was charged."
        )

    def asked(self, form: Mapping[str, str]) -> Job:
        """Return the job of step 3; refuse a counted number where that of people is private."""
        job = job_from(form, self.start)
        if job.population in self.counted:
            raise InvalidParameter(
                "this number was counted in the table, and under add-remove it is private; give a "
                "guess made without the table."
            )
        return job


def free_name(folder: Path, stem: str, ending: str = "") -> Path:
    """Return a path that does not exist yet."""
    for k in range(1, 10_000):
        path = folder / (f"{stem}{ending}" if k == 1 else f"{stem}-{k}{ending}")
        if not path.exists():
            return path
    raise InvalidParameter(f"{visible(str(folder))} is full of such names; clear it up first.")


def open_books(
    text: str, folder: Path, total: tuple[float, float] | None, job: Job
) -> tuple[Path, Ledger]:
    """Open a ledger, or start one; refuse one that this model does not fit into."""
    text = text.strip()
    refuse(
        (not text or "\x00" in text, "give the name of a ledger file."),
        (is_address(text),
         "this page takes ledgers in files only; use `noisette train` with one in a database."),
    )  # fmt: skip
    path = _validate.real_path(folder / Path(text).expanduser())
    shown, there = visible(str(path)), path.exists()
    refuse(
        (there and not path.is_file(),
         f"{shown} is not an ordinary file; give the name of a ledger file."),
        (total is None and not there, f"there is no ledger {shown}; start a new one."),
        (not path.parent.is_dir(), f"the folder of {shown} does not exist."),
        kind=LedgerError,
    )  # fmt: skip
    ledger = Ledger.open(path, *(total or (None, None)), adjacency=job.adjacency)
    left, slack = ledger.remaining, 1.0 + 1e-9
    lacking = job.epsilon > slack * left[0] or job.delta > slack * left[1]
    refuse(  # the charge itself is decided by the ledger
        (ledger.rule == "sums" and lacking,
         f"{shown} has epsilon {left[0]:.6g} and delta {left[1]:g} left, less than this model "
         f"costs ({job.epsilon:g} and {job.delta:g}); lower the budget in step 3 (another ledger "
         "is for other people)."),
        kind=LedgerError,
    )  # fmt: skip
    return path, ledger


class Walks:
    """The walks of a studio, the last ones used."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._walks: OrderedDict[str, Walk] = OrderedDict()

    def get(self, key: str) -> Walk | None:
        """Return a walk, if it is known."""
        return self._walks.get(key)

    def last_on(self, path: Path) -> Walk | None:
        """Return the walk that was last changed among those on one table."""
        with self.lock:
            return next((w for w in reversed(self._walks.values()) if w.table.path == path), None)

    def keep(self, walk: Walk) -> Walk:
        """Store a walk under its key; the oldest one is forgotten when there are many."""
        with self.lock:
            self._walks[walk.key] = walk
            self._walks.move_to_end(walk.key)
            while len(self._walks) > _MOST:
                self._walks.popitem(last=False)
        return walk

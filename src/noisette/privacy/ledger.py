"""`Ledger`: the budget of the people in the data. Charge first, then draw.

A ledger is a privacy *filter*: a charge may be chosen after seeing earlier outputs, so charges are
added only by rules proven for that (`accounting.filters`). Inside one charge, the plan is fixed
before it starts and is composed as tightly as the accountants can. A charge is never returned.
"""

import math
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from noisette import _validate, accounting
from noisette.accounting.filters import FILTERS, Filter
from noisette.adjacency import Adjacency, require_same
from noisette.errors import BudgetExceeded, InvalidParameter, LedgerError, Unproven
from noisette.plans import LastIterate, Plan, PlanLike, as_plan
from noisette.privacy.permit import Permit
from noisette.storage import Charge, Drawn, Draws, FileStore, Header, MemoryStore, Store, Totals

__all__ = ["Ledger"]


class Ledger:
    """A total (epsilon, delta) for one data set, under one relation.

    Parameters
    ----------
    epsilon, delta : the total that will never be exceeded.
    adjacency : the neighbouring relation of every charge.
    rule : how charges add up. ``"sums"`` adds epsilons and deltas and takes everything;
        ``"renyi"`` is far better for many Gaussian-like charges (delta > 0); ``"gdp"`` is exact
        when all noise is Gaussian (delta > 0).

    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
        rule: str = "sums",
    ) -> None:
        header = _header(epsilon, delta, adjacency, rule)
        self._set_up(header, MemoryStore())

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        adjacency: Adjacency | str | None = None,
        rule: str | None = None,
        experiment: bool | None = None,
    ) -> "Ledger":
        """Open the ledger in the file `path`, or start it there if `epsilon` is given.

        Many processes may share the file. For an existing ledger every argument that is given
        must agree with the file. ``experiment=True`` starts a ledger that also takes seeded noise,
        marks such charges, and protects nobody.
        """
        given = {
            "epsilon": epsilon, "delta": delta, "adjacency": adjacency, "rule": rule,
            "experiment": experiment,
        }  # fmt: skip
        if adjacency is not None:
            given["adjacency"] = Adjacency.of(adjacency).value
        wanted = None
        if epsilon is not None:
            wanted = _header(
                epsilon,
                0.0 if delta is None else delta,
                Adjacency.REPLACE_ONE if adjacency is None else adjacency,
                "sums" if rule is None else rule,
                False if experiment is None else experiment,
            )
        # Resolved now: a later chdir must not lead the charges to another file.
        store = FileStore(_validate.real_path(path))
        header = store.create_or_read(wanted)
        try:
            _header(*header)
        except InvalidParameter:
            raise LedgerError(
                f"{store.path} is damaged; restore it from a backup. Nothing was charged."
            ) from None
        for name, value in given.items():
            if value is not None and value != getattr(header, name):
                raise LedgerError(
                    f"the ledger at {path} has {name}={getattr(header, name)!r}, not {value!r}; "
                    "open it with its own values or start another file."
                )
        ledger = cls.__new__(cls)
        ledger._set_up(header, store)
        return ledger

    def _set_up(self, header: Header, store: Store) -> None:
        self._header = header
        self._filter: Filter = FILTERS[header.rule](header.epsilon, header.delta)
        self._store = store

    # Fixed at the opening: a charge under another relation or delta would be another budget.
    @property
    def epsilon(self) -> float:
        """The total epsilon."""
        return self._header.epsilon

    @property
    def delta(self) -> float:
        """The total delta."""
        return self._header.delta

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation of every charge."""
        return Adjacency.of(self._header.adjacency)

    @property
    def rule(self) -> str:
        """How charges add up."""
        return self._header.rule

    @property
    def path(self) -> Path | None:
        """The ledger's file, or None for a ledger in memory."""
        return self._store.path

    @property
    def experiment(self) -> bool:
        """Whether seeded noise may be charged: always in memory, in a file if it says so."""
        return self.path is None or self._header.experiment

    def charge(
        self,
        plan: PlanLike,
        *,
        label: str,
        delta: float | None = None,
        epsilon: float | None = None,
        resumable: bool = False,
        seeded: bool = False,
    ) -> Permit:
        """Book the cost of `plan` and return the permit to draw its noise.

        `delta` is the charge's own share of the total delta; a purely private plan needs none.
        `epsilon` is a round number to book instead of the least one; it is checked, not believed.
        `resumable` keeps count of the draws in the ledger's file, for `resume` after a kill.
        `seeded` says that the noise will come from a seed, which hides nobody: the charge is marked
        so, and a ledger in a file refuses it unless it is one for experiments.
        Raises `BudgetExceeded`, and books nothing, if the plan does not fit.
        """
        if not isinstance(label, str) or not label or not _is_text(label):
            raise InvalidParameter("label must say in a few words what is charged.")
        plan = as_plan(plan)
        if plan.adjacency is not None:
            require_same(plan.adjacency, "the plan", self.adjacency, "the ledger")
        plan = plan.under(self.adjacency)
        if _validate.boolean("seeded", seeded) and not self.experiment:
            raise InvalidParameter(
                "noise from a seed (random_state) hides nobody, so no ledger in a file may book it "
                "as if it did; leave out random_state, or use a ledger in memory or one that "
                "Ledger.open(path, ..., experiment=True) started. Nothing was charged."
            )
        if resumable and any(isinstance(leaf, LastIterate) for leaf, _ in plan.leaves()):
            # proof: LAST-ITERATE-GCM
            raise Unproven(
                "a plan of which only the last iterate is released cannot be resumed, because a "
                "checkpoint is an earlier iterate; use resumable=False, or release all iterates."
            )
        own = _validate.delta(self._default_delta() if delta is None else delta)
        epsilon = self._epsilon_of(plan, own, epsilon)
        if not math.isfinite(epsilon):
            raise Unproven(
                f"no theorem bounds this plan at delta={own:g}; charge it with a larger delta, "
                "for instance ledger.charge(plan, delta=1e-6, ...)."
            )
        cost = self._filter.cost(plan, (epsilon, own), self.adjacency)

        def check(spent: Totals) -> None:
            if not self._filter.accepts(spent.costs(), cost):
                raise BudgetExceeded(self._refusal(label, cost, spent))

        charge = Charge(label, plan.to_json(), cost, seeded)
        if not resumable:
            number = self._store.book(charge, check)
            return Permit(
                plan, epsilon, own, label,
                seeded=seeded, mark_seeded=lambda: self._store.mark_seeded(number),
            )  # fmt: skip
        holder = secrets.token_hex(16)
        none = Draws(epsilon, own, holder, Drawn((0,) * sum(1 for _ in plan.leaves())))
        number = self._store.book(charge, check, none)
        return self._resumable(number, plan, charge, none._replace(holder=holder))

    def resume(self, number: int, check: Callable[[Drawn], None] | None = None) -> Permit:
        """Return the permit of a run that was killed, for the noise it cannot have drawn yet.

        `number` is the charge's, as `Permit.number` gave it. Nothing new is charged. Whoever held
        the permit before loses it, unless `check`, called with what may have been drawn, raises.
        """
        # proof: RESUME
        number, holder = _validate.integer("number", number), secrets.token_hex(16)
        charge, draws = self._store.run(number)
        plan = Plan.from_json(charge.plan).under(self.adjacency)
        self._epsilon_of(plan, draws.delta, draws.epsilon)  # checked again, not believed
        drawn = self._store.claim(number, holder, check)
        return self._resumable(number, plan, charge, draws._replace(holder=holder, drawn=drawn))

    def _resumable(self, number: int, plan: Plan, charge: Charge, at: Draws) -> Permit:
        permit = Permit(
            plan, at.epsilon, at.delta, charge.label,
            lambda drawn: self._store.advance(number, at.holder, drawn), at.drawn,
            seeded=charge.seeded, mark_seeded=lambda: self._store.mark_seeded(number),
        )  # fmt: skip
        permit.number = number
        return permit

    def _epsilon_of(self, plan: Plan, delta: float, claimed: float | None) -> float:
        if claimed is None:
            return accounting.epsilon(plan, delta=delta, adjacency=self.adjacency)
        claimed = _validate.epsilon(claimed)
        reached = accounting.delta(plan, epsilon=claimed, adjacency=self.adjacency)
        # Asked twice: the two readings of one curve are rounded differently.
        if reached > delta and self._epsilon_of(plan, delta, None) > claimed:
            raise InvalidParameter(
                f"the plan has delta={reached:.6g} at epsilon={claimed:g}, not {delta:g}; "
                "nothing was charged."
            )
        return claimed

    def _default_delta(self) -> float:
        # Under 'sums' a share of delta is money and must be named; elsewhere it is a reading point.
        return 0.0 if self.rule == "sums" else self.delta

    def _refusal(self, label: str, cost: tuple[float, float], spent: Totals) -> str:
        left = [a - b for a, b in zip(self._filter.limit, spent.rounded(), strict=True)]
        unit = {"sums": "epsilon", "renyi": "Renyi divergence", "gdp": "mu squared"}[self.rule]
        text = f"{label!r} costs {cost[0]:.6g} in {unit} but {max(left[0], 0.0):.6g} is left"
        if self.rule == "sums" and cost[1] > 0.0:
            text += f", and {cost[1]:g} in delta where {max(left[1], 0.0):g} is left"
        return text + "; nothing was charged. Ask for less, or stop here."

    @property
    def charges(self) -> list[Charge]:
        """All charges booked so far, in order."""
        return self._store.charges()

    @property
    def count(self) -> int:
        """How many charges were booked so far."""
        return self._store.totals().number

    def page(self, first: int, count: int) -> list[Charge]:
        """Return at most `count` charges from number `first` (counted from 1) on."""
        first, count = _validate.integer("first", first), _validate.integer("count", count)
        return self._store.charges(first, count)

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """Write a backup of a ledger in a file. Put it back if need be; never charge both."""
        if not isinstance(self._store, FileStore):
            raise LedgerError("a ledger in memory has no file to copy.")
        self._store.copy_to(_validate.real_path(path))

    @property
    def spent(self) -> tuple[float, float]:
        """The sums of costs so far, in the unit of the rule."""
        return self._store.totals().rounded()

    @property
    def remaining(self) -> tuple[float, float]:
        """What is left, in the unit of the rule: (epsilon, delta) under ``"sums"``."""
        spent = self.spent
        limit = self._filter.limit
        return max(0.0, limit[0] - spent[0]), max(0.0, limit[1] - spent[1])

    def __repr__(self) -> str:
        return (
            f"Ledger(epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"adjacency={self.adjacency.value!r}, rule={self.rule!r})"
        )


def _is_text(label: str) -> bool:
    try:
        label.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: no file can hold it
        return False
    return True


def _header(
    epsilon: float, delta: float, adjacency: Adjacency | str, rule: str, experiment: bool = False
) -> Header:
    header = Header(
        _validate.epsilon(epsilon),
        _validate.delta(delta),
        Adjacency.of(adjacency).value,
        _validate.choice("rule", rule, FILTERS),
        _validate.boolean("experiment", experiment),
    )
    FILTERS[header.rule](header.epsilon, header.delta)  # refuses what the rule cannot serve
    return header

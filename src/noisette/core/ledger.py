"""`Ledger`: the budget of the people in the data. Charge first, then draw.

A ledger is a privacy *filter*: a charge may be chosen after seeing earlier outputs, so charges are
added only by rules proven for that (`accounting.filters`). Inside one charge, the plan is fixed
before it starts and is composed as tightly as the accountants can. A charge is never returned.
"""

import math
import os
import secrets
from collections.abc import Callable

from noisette import _validate
from noisette.core import accounting
from noisette.core.accounting.filters import FILTERS, Filter
from noisette.core.adjacency import UNITS, Adjacency, require_same
from noisette.core.permit import Permit
from noisette.core.plans import LastIterate, Plan
from noisette.core.plans.leaves import PlanLike, as_plan
from noisette.core.storage.books import LedgerBooks, is_text, store_at
from noisette.core.storage.records import RESTORE, Charge, Drawn, Draws, Header, Totals
from noisette.core.storage.stores import MemoryStore
from noisette.errors import BudgetExceeded, InvalidParameter, LedgerError, Unproven


class Ledger(LedgerBooks):
    """A total (epsilon, delta) for one data set, under one relation.

    Charges are never returned. A ledger made by the constructor lives in memory; `Ledger.open`
    keeps one in a file that many processes may share. Its first charge decides its unit, records
    or persons, and charges of the other unit are refused: what one row costs says little about all
    rows of a person.

    Parameters
    ----------
    epsilon : float
        The total epsilon, which will never be exceeded.
    delta : float, default 0.0
        The total delta, which will never be exceeded.
    adjacency : Adjacency or str, default "replace-one"
        The neighbouring relation of every charge.
    rule : {"sums", "renyi", "gdp"}, default "sums"
        How charges add up. ``"sums"`` adds epsilons and deltas and takes everything;
        ``"renyi"`` is far better for many Gaussian-like charges (delta > 0); ``"gdp"`` is exact
        when all noise is Gaussian (delta > 0).
    table : str, optional
        What you call the table, for the books; nothing about its rows is ever written there.

    Raises
    ------
    InvalidParameter
        If a number is out of range, or the rule needs delta > 0.

    Examples
    --------
    >>> from noisette import Ledger, mechanisms
    >>> ledger = Ledger(epsilon=1.0)
    >>> permit = ledger.charge(mechanisms.Laplace(noise_multiplier=8.0), label="mean age")
    >>> permit.epsilon, ledger.spent, ledger.remaining
    (0.25, (0.25, 0.0), (0.75, 0.0))

    """

    def __init__(
        self, epsilon: float, delta: float = 0.0, *,
        adjacency: Adjacency | str = Adjacency.REPLACE_ONE, rule: str = "sums", table: str = "",
    ) -> None:  # fmt: skip
        if not is_text(table):
            raise InvalidParameter(_NO_TEXT)
        self._header, self._filter = _checked(epsilon, delta, adjacency, rule)
        self._table = table
        self._store = MemoryStore()

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], epsilon: float | None = None,
        delta: float | None = None, *, adjacency: Adjacency | str | None = None,
        rule: str | None = None, experiment: bool | None = None, table: str = "",
    ) -> "Ledger":  # fmt: skip
        """Open the ledger in the file `path`, or start it there if `epsilon` is given.

        Many processes may share the file, and many machines a database: the address
        ``postgresql://user@host/database#name`` names one of the ledgers there. For an existing
        ledger every argument that is given must agree with it. ``experiment=True`` starts a ledger
        that also takes seeded noise, marks such charges, and protects nobody.

        Parameters
        ----------
        path : str or path-like
            The file, or the address of a ledger in PostgreSQL.
        epsilon, delta : float, optional
            The total of a new ledger; delta is 0 unless given.
        adjacency : Adjacency or str, optional
            The relation of a new ledger, "replace-one" unless given.
        rule : str, optional
            How charges add up in a new ledger, "sums" unless given.
        experiment : bool, optional
            Whether a new ledger takes seeded noise; it does not unless told.
        table : str, optional
            What you call the table that the charges made here are about, for the books.

        Returns
        -------
        Ledger
            The ledger; charges go to the file.

        Raises
        ------
        LedgerError
            If the file is damaged, cannot be written, or says other than the arguments.
        InvalidParameter
            If a number for a new ledger is out of range.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from noisette import Ledger
        >>> path = Path(tempfile.mkdtemp()) / "study.ledger"
        >>> ledger = Ledger.open(path, epsilon=2.0, delta=1e-6)
        >>> ledger.copy_to(path.with_suffix(".backup"))
        >>> Ledger.open(path)
        Ledger(epsilon=2, delta=1e-06, adjacency='replace-one', rule='sums')

        """
        given = {
            "epsilon": epsilon, "delta": delta,
            "adjacency": None if adjacency is None else Adjacency.of(adjacency).value,
            "rule": rule, "experiment": experiment,
        }  # fmt: skip
        known = {name: value for name, value in given.items() if value is not None}
        wanted = limit = None
        if epsilon is not None:
            wanted, how = _checked(**_NEW | known)  # type: ignore[arg-type]
            limit = how.most
        if not is_text(table):
            raise InvalidParameter(_NO_TEXT)
        store = store_at(path)
        header = store.create_or_read(wanted, limit)
        try:
            ledger = cls(*header[:2], adjacency=header.adjacency, rule=header.rule, table=table)
        except InvalidParameter:  # no ledger can have such a header
            text = f"{store.title} is damaged; {RESTORE}. Nothing was charged."
            raise LedgerError(text) from None
        for name, value in known.items():
            if value != getattr(header, name):
                raise LedgerError(
                    f"the ledger at {store.title} has {name}={getattr(header, name)!r}, not "
                    f"{value!r}; open it with its own values or start another one."
                )
        ledger._header, ledger._store = header, store
        return ledger

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
    def experiment(self) -> bool:
        """Whether seeded noise may be charged: always in memory, in a file if it says so."""
        return not self.lasting or self._header.experiment

    def charge(
        self, plan: PlanLike, *, label: str, delta: float | None = None,
        epsilon: float | None = None, resumable: bool = False, seeded: bool = False,
        unit: str = "record", model: str = "",
    ) -> Permit:  # fmt: skip
        """Book the cost of `plan` and return the permit to draw its noise.

        Parameters
        ----------
        plan : Plan or Mechanism
            What will run, fixed before it starts.
        label : str
            A few words for the books.
        delta : float, optional
            The charge's own share of the total delta; a purely private plan needs none.
        epsilon : float, optional
            A round number to book instead of the least one; it is checked, not believed.
        resumable : bool, default False
            Whether to keep count of the draws in the ledger's file, for `resume` after a kill.
        seeded : bool, default False
            Whether the noise will come from a seed, which hides nobody: the charge is marked
            so, and a ledger in a file refuses it unless it is one for experiments.
        unit : {"record", "person"}, default "record"
            Whose data the plan protects together; all charges of a ledger have the same.
        model : str, optional
            Which kind of model is trained or tested, for the books; estimators give their class.

        Returns
        -------
        Permit
            The right to draw what was charged, for `release`.

        Raises
        ------
        BudgetExceeded
            If the plan does not fit; nothing is booked.
        Unproven
            If no theorem bounds the plan at this delta, or it cannot be resumed.
        InvalidParameter
            If an argument is out of range, `epsilon` is less than the plan costs, or earlier
            charges have another unit.
        AdjacencyMismatch
            If the plan is bound to another relation.

        Examples
        --------
        >>> from noisette import Ledger, mechanisms
        >>> ledger = Ledger(epsilon=1.0, delta=1e-5)
        >>> noise = mechanisms.Gaussian(noise_multiplier=15.0)
        >>> ledger.charge(noise, label="second moments", delta=1e-6, epsilon=0.75)
        <Permit 'second moments': 1 noise vectors left>
        >>> [charge.label for charge in ledger.page(first=1, count=10)]
        ['second moments']

        """
        if not label or not is_text(label):
            raise InvalidParameter("label must say in a few words what is charged.")
        if not is_text(model):
            raise InvalidParameter("model must be a text: what you call the model.")
        plan, relation = as_plan(plan), self.adjacency
        require_same(plan.adjacency or relation, "the plan", relation, "the ledger")
        plan = plan.under(relation)
        Plan.from_json(text := plan.to_json())  # what is booked must be readable again
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
        # Under 'sums' a share of delta is money and must be named; else it is a reading point.
        own = 0.0 if self._header.rule == "sums" else self._header.delta
        own = _validate.delta(own if delta is None else delta)
        epsilon = self._epsilon_of(plan, own, epsilon)
        if not math.isfinite(epsilon):
            raise Unproven(
                f"no theorem bounds this plan at delta={own:g}; charge it with a larger delta, "
                "for instance ledger.charge(plan, delta=1e-6, ...)."
            )
        cost = self._filter.cost(plan, (epsilon, own), relation)

        def check(spent: Totals) -> None:
            if not self._filter.accepts(spent.costs(), cost):
                raise BudgetExceeded(self._refusal(label, model, cost, spent))

        unit = _validate.choice("unit", unit, UNITS)
        kept = "" if self._awaits else "unknown"
        charge = Charge(label, text, cost, seeded, self._table, unit, model=model, collected=kept)
        if not resumable:
            number = self.last_charge = self._store.book(charge, check)
            return Permit(
                plan, epsilon, own, label, unit=unit,
                seeded=seeded, mark_seeded=lambda: self._store.mark_seeded(number),
            )  # fmt: skip
        none = Drawn((0,) * len(list(plan.leaves())))
        draws = Draws(epsilon, own, secrets.token_hex(16), none)
        return self._resumable(self._store.book(charge, check, draws), plan, charge, draws)

    def resume(self, number: int, check: Callable[[Drawn], None] | None = None) -> Permit:
        """Return the permit of a run that was killed, for the noise it cannot have drawn yet.

        Nothing new is charged.

        Parameters
        ----------
        number : int
            The charge's number, as ``Permit.number`` gave it.
        check : callable, optional
            Called with what may have been drawn. Whoever held the permit before loses it,
            unless this raises.

        Returns
        -------
        Permit
            The right to draw the rest.

        Raises
        ------
        LedgerError
            If there is no such run to resume.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from noisette import Ledger, mechanisms, plans
        >>> ledger = Ledger.open(Path(tempfile.mkdtemp()) / "study.ledger", epsilon=2.0)
        >>> ten = plans.Repeat(plans.Run(mechanisms.Laplace(noise_multiplier=20.0)), 10)
        >>> killed = ledger.charge(ten, label="ten sums", resumable=True)
        >>> ledger.resume(killed.number)
        <Permit 'ten sums': 10 noise vectors left>

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
            seeded=charge.seeded, unit=charge.unit,
            mark_seeded=lambda: self._store.mark_seeded(number),
        )  # fmt: skip
        permit.number = self.last_charge = number
        return permit

    def _epsilon_of(self, plan: Plan, delta: float, claimed: float | None) -> float:
        if claimed is None:
            return accounting.epsilon(plan, delta=delta, adjacency=self.adjacency)
        claimed = _validate.epsilon(claimed)
        relation = self.adjacency
        if not accounting.holds(plan, epsilon=claimed, delta=delta, adjacency=relation):
            reached = accounting.delta(plan, epsilon=claimed, adjacency=relation)
            raise InvalidParameter(
                f"the plan has delta={reached:.6g} at epsilon={claimed:g}, not {delta:g}; "
                "nothing was charged."
            )
        return claimed

    def _refusal(self, label: str, model: str, cost: tuple[float, float], spent: Totals) -> str:
        what = f"{label!r} of {model}" if model else repr(label)
        left = [a - b for a, b in zip(self._filter.limit, spent.rounded(), strict=True)]
        unit = {"sums": "epsilon", "renyi": "Renyi divergence", "gdp": "mu squared"}[self.rule]
        text = f"{what} costs {cost[0]:.6g} in {unit} but {max(left[0], 0.0):.6g} is left"
        if self.rule == "sums" and cost[1] > 0.0:
            text += f", and {cost[1]:g} in delta where {max(left[1], 0.0):g} is left"
        return text + "; nothing was charged. Ask for less, or stop here."

    @property
    def spent(self) -> tuple[float, float]:
        """The sums of costs so far, in the unit of the rule."""
        return self._store.totals().rounded()

    @property
    def remaining(self) -> tuple[float, float]:
        """What is left, in the unit of the rule: (epsilon, delta) under ``"sums"``."""
        spent, limit = self.spent, self._filter.limit
        return max(0.0, limit[0] - spent[0]), max(0.0, limit[1] - spent[1])

    def __repr__(self) -> str:
        return (
            f"Ledger(epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"adjacency={self.adjacency.value!r}, rule={self.rule!r})"
        )


_NO_TEXT = "table must be a text: what you call the table."
_NEW = {"delta": 0.0, "adjacency": "replace-one", "rule": "sums"}


def _checked(
    epsilon: float, delta: float, adjacency: Adjacency | str, rule: str, experiment: bool = False
) -> tuple[Header, Filter]:
    """Return the header of a ledger, and its filter, which refuses what the rule cannot serve."""
    header = Header(
        _validate.epsilon(epsilon),
        _validate.delta(delta),
        Adjacency.of(adjacency).value,
        _validate.choice("rule", rule, FILTERS),
        _validate.boolean("experiment", experiment),
    )
    return header, FILTERS[header.rule](header.epsilon, header.delta)

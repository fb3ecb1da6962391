"""Exact attributes: nothing that a fitted model carries may be a plain function of one record.

Every attribute, also of the steps of a pipeline, is compared between fits on one data set and fits
on its neighbours. A few fits find suspects: attributes whose values come again on the same data and
are others on the neighbour. Fresh fits on as many neighbours as the claim makes necessary then
decide, so that a private choice from a short list, which may repeat honestly, raises no alarm.
"""

import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from noisette.audit.bounds import LARGEST_EPSILON, largest, odds
from noisette.audit.canaries import Data, Family, Table, number_tables, text_tables
from noisette.audit.findings import Tally
from noisette.audit.fitted_state import Note, State, fitted_state
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.worlds import fitted
from noisette.errors import NoisetteError

LEVEL = 1e-6
"""The error of this attack at most; it is small because the evidence is overwhelming."""
SCREEN, MOST_FITS = 3, 2_000
PILOTS = (2, 24)
"""Fits that foretell the values; the second try is for those that are drawn from a few."""
_MOST_FAMILIES = 12  # of all tables together; the level is shared among them
_WIDE = 30
_SHOWN = 8
ABSENT, REFUSED = Note("", b"absent"), b"refused"


def likelihood(k: int, pair: tuple[float, float]) -> float:
    """Return how likely k disjoint answers of k neighbours can be on average, at most."""
    # proof: AUDIT-EXACT
    epsilon, delta = pair
    return min(1.0, (odds(epsilon) + (k - 1) * delta) / (odds(epsilon) + k - 1))


def least_epsilon(
    k: int, fits: float, claim: tuple[float, float], apart: int, level: float
) -> float:
    """Return the largest epsilon that so many fits, all as foretold, refute at the level."""

    def refuted(epsilon: float) -> bool:
        chance = likelihood(k, _between((epsilon, claim[1]), apart))
        return fits * math.log(chance) <= math.log(level)

    return largest(refuted, 0.0, LARGEST_EPSILON)


def _between(claim: tuple[float, float], apart: int) -> tuple[float, float]:
    """Return what the claim promises for data sets that are `apart` (1 or 2) changes apart."""
    epsilon, delta = claim
    return claim if apart == 1 else (2.0 * epsilon, min(1.0, delta * (1.0 + odds(epsilon))))


def _rounds(k: int, pair: tuple[float, float], level: float) -> float:
    """Return how often k neighbours must all answer as foretold to refute the claim."""
    chance = likelihood(k, pair)
    return math.ceil(math.log(level) / (k * math.log(chance))) if chance < 1.0 else math.inf


class _Design(NamedTuple):
    """The worlds in which one suspect is tested, how often in each of them, how far apart."""

    worlds: tuple[int, ...]
    rounds: float
    apart: int

    @property
    def fits(self) -> float:
        return len(self.worlds) * self.rounds


def attributes(subject: AuditedEstimator, *, level: float, most: int = MOST_FITS) -> Tally:
    """Compare everything that fitted models carry, on every kind of neighbour that they accept."""
    out = Tally("fitted attributes", subject.claim, confidence=1.0 - level)
    hunt = _Hunt(subject, out, level / _MOST_FAMILIES, most)
    for table in hunt.tables():
        for family in table.families(subject.takes_missing):
            hunt.decide(family, hunt.screened(family))
    # The outcome in words: the attributes are named, their values are not.
    out.applies = bool(hunt.compared)
    out.note = f"{len(hunt.compared)} fitted attributes, none of which shows a record exactly"
    out.missing = (
        "the fit leaves no attribute behind" if hunt.base else
        "fit refused every table that the audit made up"
    )  # fmt: skip
    guilty = sorted(hunt.guilty, key=lambda label: label.rpartition(".")[2].startswith("_"))
    unsure = sorted(hunt.unsure - set(guilty))
    out.fault(
        f"fitted attributes that come again in every fit on the same data and are others "
        f"on neighbours ({', '.join(sorted(set(hunt.guilty.values())))}), so that they "
        f"show single records exactly: {_listed(guilty)}",
        guilty,
    )
    if unsure and hunt.compared:
        out.note = (
            f"the same in every fit on one data set and different on a neighbour, but "
            f"{most} fits cannot refute so weak a claim: {_listed(unsure)}"
        )
    return out


class _Hunt:
    """The fits of one attack, and what they showed."""

    def __init__(self, subject: AuditedEstimator, out: Tally, level: float, most: int) -> None:
        self._subject, self._out, self._level, self._most = subject, out, level, most
        self._bare = subject.unseeded()
        self.base: list[State] = []
        self.guilty: dict[str, str] = {}
        self.unsure: set[str] = set()
        self.compared: set[str] = set()

    # --- fits ---------------------------------------------------------------------------------

    def _fit(self, data: Data) -> State | None:
        """Return what a fresh model carries after its fit; None if it refuses the data."""
        from sklearn.base import clone

        self._out.runs += 1
        expected: type[Exception] = NoisetteError if self._subject.ours else Exception
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = fitted(clone(self._bare), data)
        except expected:
            return None
        return fitted_state(found)

    def _fits(self, data: Data, count: int) -> list[State] | None:
        """Several fits; None if one of them refuses."""
        states = (self._fit(data) for _ in range(count))
        found = list(itertools.takewhile(lambda state: state is not None, states))
        return found if len(found) == count else None  # type: ignore[return-value]

    def tables(self) -> Iterator[Table]:
        """Yield the tables that the estimator accepts: one of numbers, and those of words."""
        subject, width = self._subject, self._subject.width
        numbers = (
            table
            for features in ((None, _WIDE) if width is None else (width,))
            for table in number_tables(subject.room(features), subject.columns)
        )
        yield from itertools.islice(filter(self._accepted, numbers), 1)
        if not subject.ours:
            yield from filter(self._accepted, text_tables(subject.room()))

    def _accepted(self, table: Table) -> bool:
        base = self._fits(table.data(None), SCREEN)
        if base is None:
            return False
        self.base, before = base, fitted_state(self._bare)
        self.compared |= {n.label for path, n in base[0].items() if before.get(path) != n}
        return True

    # --- suspects and tests -------------------------------------------------------------------

    def screened(self, family: Family) -> dict[str, str]:
        """Return (path, label) of all that comes again on the same data, not on the neighbour."""
        here, there, found = self.base, self._fits(family.world(1), SCREEN), {}
        for state in (*here, *there) if there else ():
            for path, (label, _) in state.items():
                one, two = _values(here, path), _values(there or (), path)
                again = max(len(one), len(two)) < SCREEN
                if again and not one & two and label not in self.guilty:
                    found[path] = label
        return found

    def decide(self, family: Family, suspects: dict[str, str]) -> None:
        """Foretell the values of the suspects on many neighbours, and see whether they come."""
        claim, between = self._subject.claim, family.apart
        for pilot in PILOTS:
            if not suspects:
                return
            level = self._level / len(PILOTS) / len(suspects)
            pair = _between(claim, between[1])
            wanted = next((k for k in range(4, 500) if _rounds(k, pair, level) <= 1), 500)
            count = min(wanted, self._most // pilot, len(family.records))
            pilots = {j: self._fits(family.world(j), pilot) for j in range(count + 1)}
            designs: dict[str, tuple[_Design, dict[int, set[bytes]]]] = {}
            for path, label in suspects.items():
                values = {j: _values(states, path) for j, states in pilots.items() if states}
                design = _design(values, between, claim, level)
                if design is not None and design.fits <= self._most:
                    designs[path] = design, values
                elif design is not None:
                    self.unsure.add(label)
            for path in self._met(family, designs):
                self.guilty.setdefault(suspects[path], family.name)
                used, _ = designs[path]
                self._out.at_least(
                    least_epsilon(len(used.worlds), used.fits, claim, used.apart, level)
                )
            suspects = {
                path: suspects[path] for path in designs if suspects[path] not in self.guilty
            }

    def _met(
        self, family: Family, designs: dict[str, tuple[_Design, dict[int, set[bytes]]]]
    ) -> list[str]:
        """Return the suspects that showed a foretold value in every fresh fit."""
        alive = dict(designs)
        for number in range(max((int(design.rounds) for design, _ in designs.values()), default=0)):
            waiting = {path: each for path, each in alive.items() if each[0].rounds > number}
            for j in sorted({j for design, _ in waiting.values() for j in design.worlds}):
                state = self._fit(family.world(j))
                for path, (design, foretold) in waiting.items():
                    if j in design.worlds and not _values([state], path) <= foretold[j]:
                        alive.pop(path, None)
        return list(alive)


def _design(
    foretold: dict[int, set[bytes]], between: tuple[int, int], claim: tuple[float, float],
    level: float,
) -> _Design | None:  # fmt: skip
    """Return the cheapest test: few worlds often, or many worlds with other values each."""
    chosen, seen = [], set[bytes]()
    for j, values in foretold.items():
        if not values & seen:
            chosen.append(j)
            seen |= values
    options = [(k, between[1]) for k in range(2, len(chosen) + 1)]
    if chosen[:1] == [0] and len(chosen) > 1:  # number 0 may be nearer to all others
        options.append((2, between[0]))
    designs = (
        _Design(tuple(chosen[:k]), max(1, _rounds(k, _between(claim, apart), level)), apart)
        for k, apart in options
    )
    possible = (each for each in designs if each.rounds < math.inf)
    return min(possible, key=lambda each: each.fits, default=None)


def _values(states: Sequence[State | None], path: str) -> set[bytes]:
    """Return the digests at a path; a fit that refused shows nothing that anybody foretold."""
    return {REFUSED if s is None else s.get(path, ABSENT).digest for s in states}


def _listed(labels: Sequence[str]) -> str:
    more = len(labels) - _SHOWN
    return ", ".join(labels[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

"""`Permit`: the right to draw the noise that was charged, once, in this process.

It holds the very mechanism objects of the plan, so what is drawn is what was counted.
"""

import operator
import os
import threading
from collections.abc import Callable
from typing import Any, NoReturn, cast

from noisette import _validate
from noisette.core.guarantee import Guarantee
from noisette.core.plans import Plan, Selected
from noisette.core.plans.base import Leaf
from noisette.core.plans.leaves import Noisy
from noisette.core.storage import Drawn
from noisette.errors import PermitError

Journal = Callable[[Drawn], None]


class Permit:
    """Made only by `Ledger.charge`; used only by `release`."""

    def __init__(
        self, plan: Plan, epsilon: float, delta: float, label: str,
        journal: Journal | None = None, drawn: Drawn | None = None, *,
        seeded: bool, mark_seeded: Callable[[], None], unit: str,
    ) -> None:  # fmt: skip
        assert plan.adjacency is not None
        self.plan, self.label, self.unit = plan, label, unit
        self.epsilon, self.delta, self.adjacency = epsilon, delta, plan.adjacency
        leaves = list(plan.leaves())
        drawn = drawn or Drawn((0,) * len(leaves))
        self._leaves, self._charged, self._left = list[Leaf](), list[int](), list[int]()
        for (leaf, count), gone in zip(leaves, drawn.counts, strict=True):
            self._leaves.append(leaf)
            self._charged.append(count * leaf.draws_per_use)
            self._left.append(self._charged[-1] - gone)
        self._journal, self._written = journal, list(drawn.counts)
        self.number: int | None = None
        """The charge's number in the ledger's file, where it can be resumed."""
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._seeded, self._mark_seeded = seeded, mark_seeded
        self._bounds: dict[str, None] = dict.fromkeys(drawn.bounds)

    def draws_left(self, part: int = 0) -> int:
        """Return how many noise vectors the `part`-th leaf of the plan may still draw."""
        self.leaf(part, object)
        return self._left[part]

    def leaf(self, part: int, kind: type[Any] = Noisy) -> Noisy:
        """Return the `part`-th leaf of the plan, which must be of a kind: one that draws noise."""
        if not 0 <= part < len(self._leaves):
            raise PermitError(f"the plan has {len(self._leaves)} parts; there is no part {part}.")
        leaf = self._leaves[part]
        if isinstance(leaf, kind):
            return cast(Noisy, leaf)
        what = "no search" if kind is Selected else "declared; it draws no noise here"
        if isinstance(leaf, Selected):
            what = "a search; only best_run runs it"
        raise PermitError(f"part {part} of the plan is {what}.")

    def take(
        self, part: int, count: int, *, seeded: bool, bound: str, kind: type[Any] = Noisy
    ) -> Noisy:
        """Book `count` noise vectors of a part, or one search, and return the leaf they are of.

        `bound` is the id of the theorem that bounds the value; the guarantee will cite it.
        """
        leaf, count = self.leaf(part, kind), _validate.integer("count", count)
        self._check_process()
        with self._lock:
            if count > self._left[part]:
                raise PermitError(
                    f"{count} noise vectors were asked for but {self._left[part]} of those charged "
                    f"for {self.label!r} are left; charge the plan that really runs."
                )
            if seeded and not self._seeded:
                self._mark_seeded()  # the ledger knows before the draw, or refuses it
                self._seeded = True
            news = bound not in self._bounds
            self._bounds[bound] = None
            charged = self._charged[part]
            reached = charged - self._left[part] + count
            # The file says at least `reached` draws before they happen. It is written a hundredth
            # of the run ahead, so that a long run does not wait for the disk at each step; what is
            # written and not drawn is lost by a kill, never drawn twice. Another bound is written
            # at once: a successor's guarantee needs it.
            if self._journal is not None and (news or reached > self._written[part]):
                ahead = list(self._written)
                ahead[part] = max(ahead[part], min(reached + charged // 100, charged))
                self._write(ahead)
            self._left[part] -= count
        return leaf

    def revoke(self) -> None:
        """Take back what is left: the run that it was lent to is over."""
        with self._lock:
            self._left = [0] * len(self._left)

    def drawn(self, part: int = 0) -> int:
        """Return how many noise vectors of a part were drawn, or may have been before a kill."""
        return self._charged[part] - self.draws_left(part)

    def settle(self) -> None:
        """Write the exact counts into the ledger's file; call it when a checkpoint is complete."""
        self._check_process()  # a forked child would write the counts of the past
        with self._lock:
            self._write(list(map(operator.sub, self._charged, self._left)))

    def _write(self, counts: list[int]) -> None:
        if self._journal is not None:
            self._journal(Drawn(tuple(counts), tuple(self._bounds)))
            self._written = counts

    def guarantee(
        self, released: str, *, public: tuple[str, ...] = (), notes: tuple[str, ...] = (),
        proofs: tuple[str, ...] = (), max_rows: int | None = None,
    ) -> Guarantee:  # fmt: skip
        """Return the guarantee about everything released under this permit.

        `proofs` are theorems of the caller beside those of the bounds and of the plan; `max_rows`
        is the cap on a person's rows that the caller enforced.
        """
        return Guarantee(
            self.epsilon, self.delta, self.plan, released, public=public, seeded=self._seeded,
            proofs=(*self._bounds, *proofs), notes=notes, unit=self.unit, max_rows=max_rows,
        )  # fmt: skip

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise PermitError(
                "a permit is for the process that charged it; charge the ledger in each worker."
            )

    def _refuse(self, *args: Any) -> NoReturn:
        raise PermitError("a permit cannot be copied or sent to another process.")

    __reduce__ = __copy__ = __deepcopy__ = _refuse

    def __repr__(self) -> str:
        return f"<Permit {self.label!r}: {sum(self._left)} noise vectors left>"

"""`Guarantee`: what was promised to the people in the data, in words, numbers and JSON.

The curve is not stored: it is recomputed from the plan by the accountants, so the promise and what
ran cannot drift apart, and a guarantee read from a file is checked against its own plan.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from noisette import _validate, accounting
from noisette._text import visible
from noisette.adjacency import Adjacency, require_same
from noisette.errors import InvalidParameter
from noisette.mechanisms import ObjectiveNoise
from noisette.plans import LastIterate, Noisy, Parallel, Plan
from noisette.sampling import FullBatch
from noisette.theorems import with_grounds

__all__ = ["NUMERIC_MODEL", "ONE_FIT", "TAKEN_AS_GIVEN", "Guarantee", "rounded_up"]

FORMAT = 1

NUMERIC_MODEL = (
    "float64; noise is drawn as if real numbers were exact and each noisy value is rounded to a "
    "public power-of-two grid near 2^-24 noise scales; timing and memory access are not defended"
)

TAKEN_AS_GIVEN = (
    "The matrix X is taken as given: whatever was fitted on the data to make it, such as a scaler, "
    "an imputer, an encoder or a choice of columns, is not covered."
)
ONE_FIT = (
    "This covers one fit. Every other fit on the same people, including each fold and each "
    "candidate of a cross-validation or a search, costs its own epsilon on top; only a ledger adds "
    "them up."
)

_NEIGHBOURS = {
    Adjacency.REPLACE_ONE: "that differ only in the record of one person, which may be replaced by "
    "any other record ('replace-one'; the number of people is the same)",
    Adjacency.ZERO_OUT: "that differ only in the record of one person, which is there in one and "
    "blanked out in the other ('zero-out'; a blanked-out record takes part in nothing, neither "
    "with its features nor with its label, and a row of zeros with a label is not blanked out)",
    Adjacency.ADD_REMOVE: "of which one has exactly one person more than the other ('add-remove')",
}

_MEANING_STRONG = (
    "So whatever anybody learns from it about a person, they could have learned almost as well had "
    "that person's record been different."
)
_MEANING_WEAK = (
    "The larger epsilon, the weaker this protection; values above about 1 limit less and less what "
    "can be learned about a person."
)


@dataclass(frozen=True)
class Guarantee:
    """A differential-privacy guarantee about `released`.

    Parameters
    ----------
    epsilon, delta : the promised pair.
    plan : what ran, bound to `adjacency`; its curve is the guarantee's curve.
    released : what left the data's owner, in words.
    public : what is treated as known to everybody, one phrase each.
    seeded : whether the noise can be recomputed from a seed that somebody knows.
    proofs : ids of the theorems used, see docs/theory/theorems.md.
    notes : further sentences that a reviewer should read.

    """

    epsilon: float
    delta: float
    plan: Plan
    released: str
    public: tuple[str, ...] = ()
    seeded: bool = False
    proofs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    numeric_model: str = field(default=NUMERIC_MODEL)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.non_negative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", _validate.delta(self.delta))
        # A word such as "false", or a missing answer, must not end as "not seeded".
        _validate.boolean("seeded", self.seeded)
        for name in ("public", "proofs", "notes"):
            object.__setattr__(self, name, _phrases(name, getattr(self, name)))
        if self.plan.adjacency is None:
            raise InvalidParameter("a guarantee needs a plan that is bound to one adjacency.")
        # What the plan rests on is not for the writer of a file to leave out.
        proofs = with_grounds((*self.proofs, *proofs_of(self.plan)))
        object.__setattr__(self, "proofs", proofs)
        # Not bit by bit: another machine's special functions may differ in the last digits.
        reached = self.delta_at(self.epsilon)
        fits = reached <= self.delta * (1.0 + 1e-9)
        if not fits and not self.epsilon_at(self.delta) <= self.epsilon * (1.0 + 1e-12):
            raise InvalidParameter(
                f"the plan has delta={reached:.6g} at epsilon={self.epsilon:.6g}, which is more "
                f"than the stated {self.delta:g}; this guarantee would be wrong."
            )

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation."""
        assert self.plan.adjacency is not None
        return self.plan.adjacency

    def epsilon_at(self, delta: float) -> float:
        """Return epsilon at another delta: the same release, read elsewhere on its curve."""
        return accounting.epsilon(self.plan, delta=delta, adjacency=self.adjacency)

    def delta_at(self, epsilon: float) -> float:
        """Return delta at another epsilon."""
        return accounting.delta(self.plan, epsilon=epsilon, adjacency=self.adjacency)

    def requires(self, adjacency: Adjacency | str) -> "Guarantee":
        """Return itself if it speaks of `adjacency`, else raise by name."""
        wanted = Adjacency.of(adjacency)
        require_same(self.adjacency, "the guarantee", wanted, "the requirement")
        return self

    def statement(self) -> str:
        """Return one honest paragraph that a lawyer can read."""
        pair = f"epsilon = {rounded_up(self.epsilon)}"
        pair += f" and delta = {rounded_up(self.delta)}" if self.delta else " (pure, delta = 0)"
        odds = (
            f"For any two data sets {_NEIGHBOURS[self.adjacency]}, the probability of any outcome "
            f"under one is at most e^epsilon ({_factor(self.epsilon)}) times its probability under "
            "the other"
        )
        odds += f", plus delta ({rounded_up(self.delta)})." if self.delta else "."
        parts = [
            f"The release of {self.released} is differentially private with {pair}.",
            odds,
            _MEANING_STRONG if self.epsilon <= 1.0 else _MEANING_WEAK,
        ]
        if self.public:
            parts.append("Treated as public, and not protected: " + "; ".join(self.public) + ".")
        parts.extend(self.notes)
        if self.seeded:
            parts.append(
                "WARNING: the noise came from a fixed seed, for an experiment. The guarantee is "
                "void unless the seed is secret and used only once."
            )
        parts.append(f"Numbers: {self.numeric_model}.")
        if self.proofs:
            parts.append("Proofs: " + ", ".join(self.proofs) + " (docs/theory/theorems.md).")
        return visible(" ".join(parts))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready dictionaries."""
        return {
            "noisette_guarantee": FORMAT,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "released": self.released,
            "public": list(self.public),
            "seeded": self.seeded,
            "proofs": list(self.proofs),
            "notes": list(self.notes),
            "numeric_model": self.numeric_model,
            "plan": self.plan.to_dict(),
            "statement": self.statement(),
        }

    def to_json(self) -> str:
        """Return a JSON text that `from_json` reads back to an equal guarantee."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=2)

    @classmethod
    def from_dict(cls, node: Any) -> "Guarantee":
        """Return the guarantee that `to_dict` describes, checked against its own plan."""
        if not isinstance(node, dict) or node.get("noisette_guarantee") != FORMAT:
            raise InvalidParameter(
                f"this is not a guarantee of format {FORMAT}; "
                "read it with the version of noisette that wrote it."
            )
        try:
            plan = Plan.from_dict(node["plan"]).under(node["adjacency"])
            return cls(
                epsilon=node["epsilon"],
                delta=node["delta"],
                plan=plan,
                released=str(node["released"]),
                public=node["public"],
                seeded=node["seeded"],
                proofs=node["proofs"],
                notes=node["notes"],
                numeric_model=str(node["numeric_model"]),
            )
        except KeyError as error:
            raise InvalidParameter(f"this guarantee lacks the key {error}.") from None
        except (OverflowError, TypeError):
            raise InvalidParameter("a field of this guarantee has the wrong type.") from None

    @classmethod
    def from_json(cls, text: str) -> "Guarantee":
        """Return the guarantee that `to_json` wrote."""
        try:
            node = json.loads(text)
        except (RecursionError, TypeError, ValueError):
            raise InvalidParameter("this is not the JSON text of a guarantee.") from None
        return cls.from_dict(node)


def _phrases(name: str, values: Any) -> tuple[str, ...]:
    """Return several texts as a tuple; one text alone would fall apart into letters."""
    if not isinstance(values, list | tuple) or not all(isinstance(text, str) for text in values):
        raise InvalidParameter(f"{name} of a guarantee must be a list of texts.")
    return tuple(values)


def _factor(epsilon: float) -> str:
    if epsilon > 30.0:
        return "an astronomically large factor"
    return f"a factor of {rounded_up(math.exp(epsilon), digits=4)}"


def rounded_up(value: float, digits: int = 6) -> str:
    """Return `value` in a few digits, never less than it is (up to the last digits of a double)."""
    shown = f"{value:.{digits}g}"
    if float(shown) < value * (1.0 - 1e-12):
        unit = Decimal(1).scaleb(Decimal(shown).adjusted() - digits + 1)
        shown = f"{float(Decimal(shown) + unit):.{digits}g}"
    return shown


def proofs_of(plan: Plan) -> tuple[str, ...]:
    """Return the ids of the theorems on the noise, sampling and composition of `plan`.

    How the numbers of the curve are computed is another matter: docs/theory/accounting.md.
    """
    found: dict[str, None] = {}
    relation = plan.adjacency or Adjacency.REPLACE_ONE
    for leaf, _ in plan.leaves():
        if isinstance(leaf, Noisy):
            found.update(dict.fromkeys(_proofs_of_leaf(leaf, relation)))
    if any(isinstance(part, Parallel) for part in _parts(plan)):
        found["PARALLEL-GROUPS"] = None
    if any(sum(count for _, count in each.leaves()) > 1 for each in plan.alternatives()):
        found["COMPOSE"] = None
    return tuple(found)


def _proofs_of_leaf(leaf: Noisy, relation: Adjacency) -> Iterator[str]:
    if isinstance(leaf, LastIterate):  # one fixed order is a special case of reshuffling
        full = isinstance(leaf.sampler, FullBatch)
        yield "LAST-ITERATE-FULL-BATCH" if full else "LAST-ITERATE-RESHUFFLED"
    yield leaf.mechanism.proof
    if isinstance(leaf.mechanism, ObjectiveNoise):
        yield leaf.mechanism.additive.proof
        if relation is Adjacency.REPLACE_ONE:
            yield "OBJECTIVE-REPLACE"
    yield leaf.sampler.participation(relation).proof


def _parts(plan: Plan) -> Iterator[Plan]:
    """Yield the plan and everything inside it."""
    yield plan
    for part in plan.children():
        yield from _parts(part)

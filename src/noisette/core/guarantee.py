"""`Guarantee`: what was promised to the people in the data, in words, numbers and JSON.

The curve is not stored: it is recomputed from the plan by the accountants, so the promise and what
ran cannot drift apart, and a guarantee read from a file is checked against its own plan.
"""

import json
import math
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter
from typing import Any

from noisette import _files, _validate
from noisette._validate import visible
from noisette.core import accounting
from noisette.core.adjacency import UNITS, Adjacency, require_same
from noisette.core.mechanisms import GaussianThreshold, ObjectiveNoise
from noisette.core.plans import LastIterate, Parallel, Plan, Selected
from noisette.core.plans.leaves import Noisy
from noisette.core.sampling import FullBatch
from noisette.core.theorems import with_grounds
from noisette.errors import InvalidParameter

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

_PERSONS = {
    Adjacency.REPLACE_ONE: "which may be replaced by any other rows ('replace-one'; the number of "
    "persons is the same, the number of rows is not public and may change)",
    Adjacency.ZERO_OUT: "which are there in one and blanked out in the other ('zero-out'; a "
    "blanked-out row takes part in nothing, neither with its features nor with its label; the "
    "number of rows is not public)",
    Adjacency.ADD_REMOVE: "which are there in one and missing from the other ('add-remove'; "
    "neither the number of persons nor the number of rows is public)",
}

_HAD = {  # what exactly the relation promises: an exchange costs more than a record that is missing
    Adjacency.REPLACE_ONE: "been different",
    Adjacency.ZERO_OUT: "been blanked out",
    Adjacency.ADD_REMOVE: "not been there",
}
_MEANING_WEAK = (
    "The larger epsilon, the weaker this protection; values above about 1 limit less and less what "
    "can be learned about a person."
)


@dataclass(frozen=True)
class Guarantee:
    """A differential-privacy guarantee about `released`.

    Estimators make one for each ``fit`` (``privacy_``), permits one for all that was released under
    them. It is checked against its plan when it is made, and again when it is read from a file.

    Parameters
    ----------
    epsilon, delta : float
        The promised pair.
    plan : Plan
        What ran, bound to one adjacency; its curve is the guarantee's curve.
    released : str
        What left the data's owner, in words.
    public : tuple of str, optional
        What is treated as known to everybody, one phrase each.
    seeded : bool, default False
        Whether the noise can be recomputed from a seed that somebody knows.
    proofs : tuple of str, optional
        Ids of the theorems used, see docs/theory/theorems.md.
    notes : tuple of str, optional
        Further sentences that a reviewer should read.
    numeric_model : str, optional
        How numbers were computed and rounded.
    unit : {"record", "person"}, default "record"
        Whose data are protected together: one row, or all rows of one person.
    max_rows : int, optional
        How many rows a person brings at most, where that is capped; else any number.

    Raises
    ------
    InvalidParameter
        If the plan has no adjacency, or does not keep the promised pair.

    Examples
    --------
    >>> from noisette import Guarantee, mechanisms, plans
    >>> run = plans.Run(mechanisms.Gaussian(noise_multiplier=20.0)).under("replace-one")
    >>> promise = Guarantee(0.5, 1e-6, run, "the mean age")
    >>> print(promise.statement()[:72])
    The release of the mean age is differentially private with epsilon = 0.5
    >>> promise.epsilon_at(1e-6) <= 0.5, promise.delta_at(0.5) <= 1e-6
    (True, True)
    >>> promise.requires("replace-one").to_dict()["adjacency"], len(promise.paragraphs())
    ('replace-one', 3)
    >>> Guarantee.from_json(promise.to_json()) == Guarantee.from_dict(promise.to_dict()) == promise
    True

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
    unit: str = "record"
    max_rows: int | None = None

    def __post_init__(self) -> None:
        # A word such as "false", or a missing answer, must not end as "not seeded".
        _validate.fields(
            self, epsilon=_validate.non_negative, seeded=_validate.boolean,
            public=_phrases, proofs=_phrases, notes=_phrases,
        )  # fmt: skip
        object.__setattr__(self, "delta", _validate.delta(self.delta))
        if self.plan.adjacency is None:
            raise InvalidParameter("a guarantee needs a plan that is bound to one adjacency.")
        _validate.choice("unit", self.unit, UNITS)
        if self.max_rows is not None:
            _validate.integer("max_rows", self.max_rows)
            if self.unit == "record":
                raise InvalidParameter("max_rows is for guarantees about persons (unit='person').")
        for leaf, _ in self.plan.leaves() if self.unit == "person" else ():
            # A promise to persons whose noise was counted for single rows would be wrong.
            noise = leaf.mechanism if isinstance(leaf, Noisy) else None
            if isinstance(noise, ObjectiveNoise) and not noise.persons:
                # proof: PERSON-MEAN
                raise InvalidParameter(
                    "the plan counts objective noise for single rows; this guarantee about persons "
                    "would be wrong."
                )
            if isinstance(noise, GaussianThreshold) and noise.keys < (self.max_rows or math.inf):
                # proof: CATEGORY-THRESHOLD
                raise InvalidParameter(
                    "the plan counts levels for persons with fewer rows than this guarantee allows "
                    "them, so it would be wrong; max_rows caps them."
                )
        # What the plan rests on is not for the writer of a file to leave out.
        proofs = (*self.proofs, *UNITS[self.unit].proofs, *proofs_of(self.plan))
        object.__setattr__(self, "proofs", with_grounds(proofs))
        pair = {"epsilon": self.epsilon, "delta": self.delta}
        if accounting.holds(self.plan, **pair, adjacency=self.plan.adjacency):
            return
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
        """Return epsilon at another delta: the same release, read elsewhere on its curve.

        Parameters
        ----------
        delta : float
            Where to read the curve.

        Returns
        -------
        float
            The least proven epsilon of the plan at that delta.

        """
        return accounting.epsilon(self.plan, delta=delta, adjacency=self.adjacency)

    def delta_at(self, epsilon: float) -> float:
        """Return delta at another epsilon.

        Parameters
        ----------
        epsilon : float
            Where to read the curve.

        Returns
        -------
        float
            The least proven delta of the plan at that epsilon.

        """
        return accounting.delta(self.plan, epsilon=epsilon, adjacency=self.adjacency)

    def requires(self, adjacency: Adjacency | str) -> "Guarantee":
        """Return itself if it speaks of `adjacency`, else raise by name.

        Parameters
        ----------
        adjacency : Adjacency or str
            The relation that the caller relies on.

        Returns
        -------
        Guarantee
            Itself.

        Raises
        ------
        AdjacencyMismatch
            If it speaks of another relation.

        """
        require_same(self.adjacency, "the guarantee", Adjacency.of(adjacency), "the requirement")
        return self

    def statement(self) -> str:
        """Return one honest paragraph that a lawyer can read.

        Returns
        -------
        str
            What is promised, to whom, what is treated as public, and what is not covered.

        """
        return visible(" ".join(self.paragraphs()))

    def paragraphs(self) -> tuple[str, ...]:
        """Return the statement in its parts: the promise, then one thought each.

        Returns
        -------
        tuple of str
            Joined by blanks they are the statement.

        """
        pair = f"epsilon = {rounded_up(self.epsilon)}"
        pair += f" and delta = {rounded_up(self.delta)}" if self.delta else " (pure, delta = 0)"
        who = _NEIGHBOURS[self.adjacency]
        if self.unit == "person":
            cap = "" if self.max_rows is None else f", of which at most {self.max_rows} are used"
            who = (
                f"that differ in all rows of one person, {_PERSONS[self.adjacency]}, where a "
                f"person may have any number of rows{cap}"
            )
        factor = "an astronomically large factor"
        if self.epsilon <= 30.0:
            factor = f"a factor of {rounded_up(math.exp(self.epsilon), digits=4)}"
        odds = (
            f"For any two data sets {who}, the probability of any outcome under one is at most "
            f"e^epsilon ({factor}) times its probability under the other"
        )
        odds += f", plus delta ({rounded_up(self.delta)})." if self.delta else "."
        strong = (
            "So whatever anybody learns from it about a person, they could have learned almost as "
            f"well had {UNITS[self.unit].theirs} {_HAD[self.adjacency]}."
        )
        meaning = strong if self.epsilon <= 1.0 else too_large(self.epsilon) or _MEANING_WEAK
        released = f"The release of {self.released} is differentially private with {pair}."
        parts = [f"{released} {odds} {meaning}"]
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
        return tuple(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready dictionaries.

        Returns
        -------
        dict
            All fields, the plan and the statement.

        """
        lists = {
            "public": list(self.public),
            "proofs": list(self.proofs),
            "notes": list(self.notes),
        }
        found = vars(self) | lists
        del found["plan"]
        return {
            "noisette_guarantee": FORMAT, "adjacency": self.adjacency.value, **found,
            "plan": self.plan.to_dict(), "statement": self.statement(),
        }  # fmt: skip

    def to_json(self) -> str:
        """Return a JSON text that `from_json` reads back to an equal guarantee.

        Returns
        -------
        str
            JSON with sorted keys.

        """
        return json.dumps(self.to_dict(), sort_keys=True, indent=2)

    @classmethod
    def from_dict(cls, node: Any) -> "Guarantee":
        """Return the guarantee that `to_dict` describes, checked against its own plan.

        Parameters
        ----------
        node : dict
            What `to_dict` returned.

        Returns
        -------
        Guarantee
            An equal guarantee.

        Raises
        ------
        InvalidParameter
            If a field is missing, of the wrong type, or does not fit the plan.

        """
        if not isinstance(node, dict) or node.get("noisette_guarantee") != FORMAT:
            raise InvalidParameter(
                f"this is not a guarantee of format {FORMAT}; "
                "read it with the version of noisette that wrote it."
            )
        # Files from before persons could be the unit speak of records, and lack both.
        node = {"unit": "record", "max_rows": None} | node
        gone = sorted({"adjacency", *cls.__match_args__} - set(node))  # all fields
        if gone:
            raise InvalidParameter(f"this guarantee lacks {gone[0]!r}.")
        with _files.understood("a field of this guarantee has the wrong type.", InvalidParameter):
            found = {name: node[name] for name in cls.__match_args__}
            found |= {name: str(node[name]) for name in ("released", "numeric_model")}
            found["plan"] = Plan.from_dict(node["plan"]).under(node["adjacency"])
            return cls(**found)

    @classmethod
    def from_json(cls, text: str) -> "Guarantee":
        """Return the guarantee that `to_json` wrote.

        Parameters
        ----------
        text : str
            What `to_json` returned.

        Returns
        -------
        Guarantee
            An equal guarantee; what is none, or does not fit its plan, is refused.

        """
        with _files.understood("this is not the JSON text of a guarantee.", InvalidParameter):
            node = _files.from_json(text)
        return cls.from_dict(node)


def _phrases(name: str, values: Any) -> tuple[str, ...]:
    """Return several texts as a tuple; one text alone would fall apart into letters."""
    if not isinstance(values, list | tuple) or not all(isinstance(text, str) for text in values):
        raise InvalidParameter(f"{name} of a guarantee must be a list of texts.")
    return tuple(values)


def too_large(epsilon: float) -> str:
    """Return what an epsilon above 10 means, nothing for a smaller one."""
    if epsilon <= 10.0:
        return ""
    return (
        "An epsilon above 10 promises next to nothing: what somebody holds to be true of a person "
        "with a chance of 1 in 20,000 may be more likely than not once this is released."
    )


def rounded_up(value: float, digits: int = 6) -> str:
    """Return `value` in a few digits, never less than it is (up to the last digits of a double)."""
    shown = f"{value:.{digits}g}"
    if float(shown) < value * (1.0 - 1e-12):
        unit = Decimal(1).scaleb(Decimal(shown).adjusted() - digits + 1)
        shown = f"{float(Decimal(shown) + unit):.{digits}g}"
    return shown


def proofs_of(plan: Plan) -> list[str]:
    """Return the ids of the theorems on the noise, sampling and composition of `plan`.

    How the numbers of the curve are computed is another matter: docs/theory/accounting.md.
    """
    found = list[str]()
    relation = plan.adjacency or Adjacency.REPLACE_ONE
    for leaf, _ in plan.leaves():
        if isinstance(leaf, Selected):
            found.append("SELECT-PROFILE")
            for candidate in leaf.candidates:
                found += proofs_of(candidate.under(relation))
        if not isinstance(leaf, Noisy):
            continue
        if isinstance(leaf, LastIterate):  # one fixed order is a special case of reshuffling
            full = isinstance(leaf.sampler, FullBatch)
            found.append("LAST-ITERATE-FULL-BATCH" if full else "LAST-ITERATE-RESHUFFLED")
        noise = leaf.mechanism
        found.append(noise.proof)
        if isinstance(noise, ObjectiveNoise):
            found.append(noise.additive.proof)
            if noise.shape == "two-signed":
                found.append("TWO-SIGNED")
            if noise.persons:
                found.append("PERSON-MEAN")
            elif relation is Adjacency.REPLACE_ONE and noise.shape != "two-signed":
                found.append("OBJECTIVE-REPLACE")
            if noise.dimension is None:  # earlier releases decide it
                # proof: PLAN-BEFORE-LOOK
                found.append("PLAN-BEFORE-LOOK")
        found.append(leaf.sampler.participation(relation).proof)
    inside = [plan]
    for part in inside:  # which grows meanwhile
        inside += part.children()
        if isinstance(part, Parallel):
            found.append("PARALLEL-GROUPS")
    for each in plan.alternatives():
        if sum(map(itemgetter(1), each.leaves())) > 1:
            found.append("COMPOSE")
    return found

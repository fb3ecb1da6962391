"""`check_estimator`: the whole battery on one estimator, ours or anybody's."""

from collections.abc import Callable, Sequence
from typing import Any

from noisette import _validate
from noisette.audit.findings import AuditReport, Finding
from noisette.audit.whitebox.clipping import clipping
from noisette.audit.whitebox.density import density
from noisette.audit.whitebox.exposed import exposed
from noisette.audit.whitebox.from_outside import FIRST_LOOK, STRANGERS, from_outside
from noisette.audit.whitebox.noise_law import noise_law
from noisette.audit.whitebox.repeated import repeated
from noisette.audit.whitebox.replay import replay
from noisette.audit.whitebox.sampling_law import sampling_law
from noisette.audit.whitebox.solver import solver
from noisette.audit.whitebox.subject import Subject
from noisette.errors import InvalidParameter

__all__ = ["ATTACKS", "check_estimator"]

ATTACKS = (
    "exposed", "replay", "solver", "density", "clipping", "repeated", "noise-law", "sampling-law",
    "two-worlds",
)  # fmt: skip
"""The battery, in the order in which it runs. Strangers get "repeated" and "two-worlds"."""

_STATISTICAL = ("noise-law", "sampling-law", "two-worlds")
_FROM_OUTSIDE = ("repeated", "two-worlds")


def check_estimator(
    estimator: Any,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    runs: int | None = None,
    confidence: float = 0.999,
    long: bool = False,
    n_jobs: int = 1,
    progress: bool = False,
    attacks: Sequence[str] | None = None,
    seed: int = 0,
) -> AuditReport:
    """Audit an estimator and return one finding for each attack.

    Parameters
    ----------
    estimator : unfitted or fitted; only clones of it are fitted, never itself, and its ledger is
        left alone. Estimators of this library are watched from inside; others that follow
        scikit-learn's interface are audited by what a fitted model shows.
    epsilon, delta : the claim; by default the estimator's own parameters.
    runs : fits in each world of a black-box test (default: 100 for ours, 600 for others, ten
        times as many with `long`).
    confidence : a correct estimator is called violated with probability at most 1 - confidence;
        the statistical attacks share this error by Bonferroni's inequality.
    long : more seeds, more noise, finer grids, all canaries in the black-box tests.
    n_jobs, progress : for the black-box tests, see `two_worlds`.
    attacks : names out of `ATTACKS`, all of them by default.
    seed : of the audit's own randomness. Black-box tests of other libraries' classes use whatever
        randomness the class gives its users.

    """
    for name in ("fit", "get_params"):
        if not hasattr(estimator, name):
            raise InvalidParameter(
                f"estimator must have {name}, as scikit-learn's have; got an object of type "
                f"{type(estimator).__name__}."
            )
    if not 0.0 < confidence < 1.0:
        raise InvalidParameter(f"confidence must be in (0, 1); got {confidence!r}.")
    seed = _validate.integer("seed", seed, least=0)
    subject = Subject(estimator, _claim(estimator, epsilon, delta), seed)
    chosen = tuple(_validate.choice("attacks", a, ATTACKS) for a in attacks or ATTACKS)
    if not subject.ours:
        chosen = tuple(attack for attack in chosen if attack in _FROM_OUTSIDE)
    alpha = 1.0 - confidence
    shared = sum(attack in _STATISTICAL for attack in chosen)
    share = alpha / max(1, shared)
    if runs is None:
        runs = (100 if subject.ours else 600) * (10 if long else 1)
    seeds, factor, points = (5, 8.0, 181) if long else (1, 1.0, 61)
    white: dict[str, Callable[[], Any]] = {
        "exposed": lambda: exposed(subject),
        "replay": lambda: replay(subject, seeds=seeds),
        "solver": lambda: solver(subject),
        "density": lambda: density(subject, points=points),
        "clipping": lambda: clipping(subject),
        "repeated": lambda: repeated(subject),
        "noise-law": lambda: noise_law(subject, alpha=share, factor=factor),
        "sampling-law": lambda: sampling_law(subject, alpha=share),
    }
    names = STRANGERS if long or not subject.ours else FIRST_LOOK
    findings: list[Finding] = []
    for attack in chosen:
        if attack == "two-worlds":
            findings += from_outside(
                subject, alpha=share, runs=runs, n_jobs=n_jobs, progress=progress, names=names
            )
        else:
            findings.append(white[attack]().finding())
    return AuditReport(_name(estimator), tuple(findings))


def _claim(estimator: Any, epsilon: float | None, delta: float | None) -> tuple[float, float]:
    """Return the claimed pair, from the arguments or the estimator's parameters."""
    parameters = estimator.get_params(deep=False)
    stated = parameters.get("epsilon") if epsilon is None else epsilon
    if stated is None:
        raise InvalidParameter(
            f"{type(estimator).__name__} has no parameter epsilon; say what is claimed with "
            "epsilon=..."
        )
    spare = parameters.get("delta", 0.0) if delta is None else delta
    return _validate.epsilon(stated), _validate.delta(0.0 if spare is None else spare)


def _name(estimator: Any) -> str:
    """Return the class and the parameters that differ from its defaults, on one line."""
    return " ".join(repr(estimator).split())

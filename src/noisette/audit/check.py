"""`check_estimator`: the whole battery on one estimator, ours or anybody's."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from noisette import _validate
from noisette._validate import refuse
from noisette.audit.findings import AuditReport, Finding, Tally
from noisette.audit.two_worlds import LEAST_RUNS
from noisette.audit.whitebox.attributes import LEVEL, MOST_FITS, attributes
from noisette.audit.whitebox.exposed import exposed, solver
from noisette.audit.whitebox.from_outside import from_outside
from noisette.audit.whitebox.laws import noise_law, sampling_law
from noisette.audit.whitebox.repeated import repeated
from noisette.audit.whitebox.replay import replay
from noisette.audit.whitebox.subject import AuditedEstimator
from noisette.audit.whitebox.trace import Blind
from noisette.audit.worlds import jobs
from noisette.core.adjacency import Adjacency

ATTACKS = (
    "attributes", "exposed", "replay", "solver", "repeated", "noise-law", "sampling-law",
    "two-worlds",
)  # fmt: skip
"""The battery, in the order in which it runs. Strangers get the first, "repeated" and the last."""

_STATISTICAL = ("noise-law", "sampling-law", "two-worlds")
_FROM_OUTSIDE = ("repeated", "two-worlds")  # both statistical there
_ANYBODY = ("attributes", *_FROM_OUTSIDE)


def check_estimator(
    estimator: Any, *, epsilon: float | None = None, delta: float | None = None,
    runs: int | None = None, confidence: float = 0.999, long: bool = False, n_jobs: int = 1,
    progress: bool = False, attacks: Sequence[str] | None = None, seed: int = 0,
    adjacency: str | Adjacency | None = None, norm_bound: float | None = None,
    persons: bool = False,
) -> AuditReport:  # fmt: skip
    """Audit an estimator and return one finding for each attack.

    Parameters
    ----------
    estimator : estimator
        Unfitted or fitted; only clones of it are fitted, never itself, and its ledger is left
        alone. Estimators of this library are watched from inside; others that follow
        scikit-learn's interface are audited by what a fitted model shows.
    epsilon, delta : float, optional
        The claim; by default the estimator's own parameters.
    runs : int, optional
        Fits in each world of a black-box test (default: 100 for ours, 600 for others, ten times
        as many with `long`).
    confidence : float, default 0.999
        A correct estimator is called violated with probability at most 1 - confidence; the
        statistical attacks share this error by Bonferroni's inequality. An exact attribute of a
        stranger refutes the claim by itself; then nothing else is run unless `attacks` or
        `long` ask for it.
    long : bool, default False
        More seeds, more noise, finer grids, all canaries in the black-box tests.
    n_jobs, progress : see `two_worlds`
        For the black-box tests.
    attacks : sequence of str, optional
        Names out of `ATTACKS`, all of them by default.
    seed : int, default 0
        Of the audit's own randomness. Black-box tests of other libraries' classes use whatever
        randomness the class gives its users.
    adjacency : Adjacency or str, optional
        For other libraries' classes, the relation of their claim: a claim about add-remove must
        say so, or it is tested against twice the change that it speaks of. By default their
        parameter of this name, else replace-one.
    norm_bound : float, optional
        For other libraries' classes, the bound on the rows that their claim presumes. By
        default their parameter of this name (or ``data_norm``, ``clip_norm``), else 1.
    persons : bool, default False
        Whether the claim is about all rows of one person, told to ``fit`` by ``persons``. The
        worlds then differ in all rows of one person, and in how many these are.

    Returns
    -------
    AuditReport
        One finding for each attack; ``print`` it.

    Raises
    ------
    InvalidParameter
        If it is no estimator, or an argument is out of range or contradicts it.

    Examples
    --------
    >>> from noisette import LogisticRegression
    >>> from noisette.audit import check_estimator
    >>> model = LogisticRegression(epsilon=1.0, norm_bound=1.0, classes=[0, 1])
    >>> report = check_estimator(model, attacks=["replay", "solver"])
    >>> report.verdict, [finding.attack for finding in report.findings]
    ('consistent', ['replay on neighbours', 'solver against its certificate'])

    """
    _check_kind(estimator)
    _validate.fraction("confidence", confidence)
    seed = _validate.integer("seed", seed, least=0)
    jobs(n_jobs)
    if runs is not None:
        runs = _validate.integer("runs", runs, least=LEAST_RUNS)
    subject = AuditedEstimator(
        estimator, _claim(estimator, epsilon, delta), seed,
        None if adjacency is None else Adjacency.of(adjacency),
        None if norm_bound is None else _validate.positive("norm_bound", norm_bound),
        _validate.boolean("persons", persons),
    )  # fmt: skip
    _check_facts(subject)
    wanted = [_validate.choice("attacks", attack, ATTACKS) for attack in attacks or ATTACKS]
    able, statistical = (ATTACKS, _STATISTICAL) if subject.ours else (_ANYBODY, _FROM_OUTSIDE)
    findings = [
        Finding(attack, subject.claim, None, 1.0, "not applicable", 0,
                "This attack looks inside estimators of noisette, which this one is not.")
        for attack in attacks or () if attack not in able
    ]  # fmt: skip
    chosen = [attack for attack in wanted if attack in able]
    level = min(LEVEL, 0.1 * (1.0 - confidence)) if "attributes" in chosen else 0.0
    share = (1.0 - confidence - level) / max(1, sum(attack in statistical for attack in chosen))
    fits = runs or (100 if subject.ours else 600) * (10 if long else 1)
    for attack in chosen:
        if attack == "two-worlds":
            findings += from_outside(
                subject, alpha=share, runs=fits, n_jobs=n_jobs, progress=progress, long=long
            )
        else:
            findings.append(_watched(attack, subject, level, share, fits, long=long))
        quick = attack == "attributes" and attacks is None and not (long or subject.ours)
        if quick and findings[-1].verdict == "violated":
            break  # a certain answer in seconds; minutes of other attacks would add nothing
    # the class and the parameters that differ from its defaults, on one line
    name = " ".join(repr(estimator).split())
    return AuditReport(name, tuple(findings), "person" if subject.persons else "record")


def _check_kind(estimator: Any) -> None:
    """Refuse what is no estimator."""
    name = getattr(estimator, "__name__", "")
    missing = (
        (not hasattr(estimator, needed),
         f"estimator must have {needed}, as scikit-learn's have; got an object of type "
         f"{type(estimator).__name__}.")
        for needed in ("fit", "get_params")
    )  # fmt: skip
    refuse(
        (isinstance(estimator, type),
         f"estimator must be an object, not the class {name}: write {name}(...)."),
        *missing,
    )  # fmt: skip


def _watched(
    attack: str, subject: AuditedEstimator, level: float, share: float, fits: int, *, long: bool
) -> Finding:
    """Run an attack that watches; where it could not watch an estimator of ours, that is a fault.

    Each statistical one may err with probability `share`.
    """
    battery: dict[str, Callable[[], Tally]] = {
        "attributes": partial(attributes, subject, level=level, most=MOST_FITS * (1 + 9 * long)),
        "exposed": partial(exposed, subject),
        "replay": partial(replay, subject, seeds=5 if long else 1),
        "solver": partial(solver, subject),
        "repeated": partial(repeated, subject, alpha=share, runs=fits),
        "noise-law": partial(noise_law, subject, alpha=share, factor=8.0 if long else 1.0),
        "sampling-law": partial(sampling_law, subject, alpha=share),
    }
    try:
        out = battery[attack]()
    except Blind as gap:
        out = Tally(attack, subject.claim)
        out.fault(f"{gap}: the audit could not watch this fit, so the check was not made")
    return out.finding()


def _check_facts(subject: AuditedEstimator) -> None:
    """Refuse facts that contradict the estimator, or that no data set can express."""
    ours, kind = subject.ours, type(subject.estimator).__name__
    blanked = not ours and subject.adjacency is Adjacency.ZERO_OUT
    refuse(
        (ours and (subject.relation is not None or subject.bound is not None),
         "adjacency and norm_bound are parameters of noisette's estimators; set them there."),
        (subject.persons and not subject.takes("persons"),
         "a claim about persons needs to know whose rows they are, and the fit of "
         f"{kind} takes no persons."),
        (blanked and subject.room().null == "sample_epsilon",
         "zero-out needs a way to say that a record is blank, and the fit of "
         f"{kind} takes no sample_weight."),
    )  # fmt: skip


def _claim(estimator: Any, epsilon: float | None, delta: float | None) -> tuple[float, float]:
    """Return the claimed pair, from the arguments or the estimator's parameters."""
    own = estimator.get_params(deep=False)
    stated, spare = own.get("epsilon"), own.get("delta")
    if stated is None:  # of the one private step of a pipeline; two of them would have to be added
        deep = estimator.get_params(deep=True)
        parts = [name for name in deep if name.endswith("__epsilon") and deep[name] is not None]
        if len(parts) == 1:
            stated = deep[parts[0]]
            spare = deep.get(parts[0].removesuffix("epsilon") + "delta")
    stated = stated if epsilon is None else epsilon
    refuse(
        (stated is None,
         f"{type(estimator).__name__} has no parameter epsilon; say what is claimed with "
         "epsilon=..."),
    )  # fmt: skip
    spare = spare if delta is None else delta
    return _validate.epsilon(stated), _validate.delta(0.0 if spare is None else spare)

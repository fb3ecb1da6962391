"""Find out whether a claimed epsilon is true, ours or anybody's.

Black box: `two_worlds` and `gdp_two_worlds` (many fits on two neighbours), `one_run` (one fit with
many canaries). White box: `check_estimator` joins the black-box tests with deterministic checks of
what a fit really does; it is imported when it is first used.
"""

from typing import TYPE_CHECKING

from noisette._package import lazily

# Not lazy: a function and its file share a name, and the function must win.
from noisette.audit.findings import AuditReport, Finding
from noisette.audit.one_run import OneRun, one_run
from noisette.audit.two_worlds import TwoWorlds, gdp_two_worlds, two_worlds

if TYPE_CHECKING:
    from noisette.audit.check import check_estimator

__all__ = [
    "AuditReport", "Finding", "OneRun", "TwoWorlds", "check_estimator", "gdp_two_worlds", "one_run",
    "two_worlds",
]  # fmt: skip


__getattr__ = lazily(__name__, {"check_estimator": "check"}, {})


def __dir__() -> list[str]:
    return sorted(__all__)

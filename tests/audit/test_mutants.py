"""Every mutant is called violated by `check_estimator`, and the un-mutated estimator is not.

The attacks are either deterministic or run with fixed seeds at confidence 0.999.
"""

from typing import Any

import pytest
from mutants import MUTANTS, Mutant, clear_caches

from noisette.audit import check_estimator

ATTACKS = sorted({(m.attack, " ".join(repr(m.estimator).split())) for m in MUTANTS.values()})
BY_TEXT = {" ".join(repr(m.estimator).split()): m.estimator for m in MUTANTS.values()}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda m: m.name)
def test_the_mutant_is_caught(mutant: Mutant) -> None:
    with mutant():
        report = check_estimator(mutant.estimator, attacks=[mutant.attack])
    assert report.verdict == "violated", str(report)


@pytest.mark.parametrize(("attack", "text"), ATTACKS)
def test_the_same_attack_passes_the_real_library(attack: str, text: str) -> None:
    report = check_estimator(BY_TEXT[text], attacks=[attack])
    assert report.verdict == "consistent", str(report)


def test_mutants_leave_nothing_behind() -> None:
    import sys

    def attributes() -> dict[Any, Any]:
        modules = [m for name, m in sys.modules.items() if name.startswith("noisette")]
        return {(m.__name__, name): value for m in modules for name, value in vars(m).items()}

    before = attributes()
    for mutant in MUTANTS.values():
        with mutant():
            pass
    after = attributes()
    assert all(after[key] is before[key] for key in before if not key[1].startswith("__"))


def test_there_are_mutants_for_what_the_issues_list() -> None:
    listed = (
        "10 % too small", "shape d - 1", "each coordinate", "factor 2", "copied into workers",
        "unregularised intercept", "c R instead", "share their noise", "stopped early",
        "lecture's constant", "counted as Poisson",
    )  # fmt: skip
    for words in listed:
        assert any(words in name for name in MUTANTS), words
    clear_caches()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda m: m.name)
def test_the_whole_battery_catches_it(mutant: Mutant) -> None:
    with mutant():
        report = check_estimator(mutant.estimator, seed=2)
    assert report.verdict == "violated", str(report)

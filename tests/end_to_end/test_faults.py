"""Nothing that was paid for is lost once it is on the disk, and no sentence about it is false."""

from pathlib import Path

import pytest

from faults import Command, scoring, sweep, training

DIRECTLY = ("--mechanism", "objective")
PARTS = 8  # of a sweep of thousands, so that two processes share it and a log shows it advance


def check(command: Command, first: int = 0, **thinned: int) -> None:
    outcomes = list(sweep(command, first, **thinned))
    wrong = [each for each in outcomes if each.faults or (each.lost and each.synced)]
    assert wrong == []
    assert {each.charged for each in outcomes} == {True, False}
    assert any(each.kept for each in outcomes)


def test_a_few_faults_of_a_training(tmp_path: Path) -> None:
    check(training(tmp_path, *DIRECTLY), calls=29, functions=300)


def test_a_few_faults_of_an_evaluation(tmp_path: Path) -> None:
    check(scoring(tmp_path), calls=37, functions=300)


@pytest.mark.slow
@pytest.mark.parametrize("more", [DIRECTLY, ("--force",)])
@pytest.mark.parametrize("first", range(PARTS))
def test_every_fault_of_a_training(tmp_path: Path, first: int, more: tuple[str, ...]) -> None:
    check(training(tmp_path, *more), first, calls=PARTS, functions=PARTS)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--out", "s.json")])
def test_every_fault_of_an_evaluation(tmp_path: Path, more: tuple[str, ...]) -> None:
    check(scoring(tmp_path, *more))

"""Who catches which mutant: the whole battery on every mutant of tests/audit.

Prints a Markdown table: the mutant, the estimator that it spoils, every attack that caught it with
the number of fits it made (the first in the order of the battery comes first), and whether the
un-mutated estimator passed the same battery. Mutants of promises to persons are audited as such.

With --seeds K each mutant's own fast attack runs with K seeds instead, on the mutant and on the
real library: how many of K refute it, and how many refute the real one.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "audit"))

from mutants import MUTANTS, Mutant
from person_mutants import PERSON_MUTANTS

from noisette.audit import AuditReport, check_estimator


def checked(mutant: Mutant, **options: object) -> AuditReport:
    persons = mutant.name in PERSON_MUTANTS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_estimator(mutant.estimator, persons=persons, **options)


def battery(chosen: dict[str, Mutant]) -> None:
    passed: dict[tuple[str, bool], str] = {}
    print("| mutant | audited | caught by (fits) | un-mutated | s |")
    print("|---|---|---|---|---|")
    missed = 0
    for name, mutant in chosen.items():
        subject = " ".join(repr(mutant.estimator).split())
        key = subject, name in PERSON_MUTANTS
        if key not in passed:
            passed[key] = checked(mutant).verdict
        start = time.perf_counter()
        with mutant():
            report = checked(mutant)
        caught = ", ".join(f"{found.attack} ({found.runs})" for found in report.violations)
        missed += not caught
        row = (name, f"`{subject}`", caught or "**not caught**", passed[key])
        print(f"| {' | '.join(row)} | {time.perf_counter() - start:.1f} |", flush=True)
    print(f"\n{len(chosen)} mutants, {missed} not caught.")


def many_seeds(chosen: dict[str, Mutant], seeds: int) -> None:
    print(f"| mutant | attack | refuted, of {seeds} | un-mutated refuted, of {seeds} |")
    print("|---|---|---|---|")
    for name, mutant in chosen.items():
        found = []
        for spoilt in (True, False):
            verdicts = []
            for seed in range(seeds):
                if spoilt:
                    with mutant():
                        report = checked(mutant, attacks=[mutant.attack], seed=seed)
                else:
                    report = checked(mutant, attacks=[mutant.attack], seed=seed)
                verdicts.append(report.verdict)
            found.append(verdicts.count("violated"))
        print(f"| {name} | {mutant.attack} | {found[0]} | {found[1]} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run the mutants whose name contains this")
    parser.add_argument("--seeds", type=int, default=0, help="each fast attack with so many seeds")
    given = parser.parse_args()
    every = {**MUTANTS, **PERSON_MUTANTS}
    chosen = {name: mutant for name, mutant in every.items() if given.only in name}
    if given.seeds:
        many_seeds(chosen, given.seeds)
    else:
        battery(chosen)


if __name__ == "__main__":
    main()

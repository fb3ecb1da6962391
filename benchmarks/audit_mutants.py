"""Who catches which mutant: the whole battery on every mutant of tests/audit/mutants.py.

Prints a Markdown table: the mutant, the estimator that it spoils, every attack that caught it with
the number of fits it made (the first in the order of the battery comes first), and whether the
un-mutated estimator passed the same battery.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "audit"))

from mutants import MUTANTS

from noisette.audit import check_estimator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run the mutants whose name contains this")
    chosen = parser.parse_args().only
    passed: dict[str, str] = {}
    print("| mutant | audited | caught by (fits) | un-mutated | s |")
    print("|---|---|---|---|---|")
    missed = 0
    for name, mutant in MUTANTS.items():
        if chosen not in name:
            continue
        subject = " ".join(repr(mutant.estimator).split())
        if subject not in passed:
            passed[subject] = check_estimator(mutant.estimator).verdict
        start = time.perf_counter()
        with mutant(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = check_estimator(mutant.estimator)
        caught = ", ".join(f"{found.attack} ({found.runs})" for found in report.violations)
        missed += not caught
        row = (name, f"`{subject}`", caught or "**not caught**", passed[subject])
        print(f"| {' | '.join(row)} | {time.perf_counter() - start:.1f} |", flush=True)
    print(f"\n{len(MUTANTS) if not chosen else 'some'} mutants, {missed} not caught.")


if __name__ == "__main__":
    main()

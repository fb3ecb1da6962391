"""Commands on tables do their work without importing scikit-learn, and come to the same."""

import json
import subprocess
import sys

from helpers import run

COMMANDS = """
example
schema loans.csv
plan loans.csv --schema loans.toml --epsilon 1 --counts 0.1
ledger b.ledger --epsilon 9 --delta 1e-6
train loans.csv --schema loans.toml --epsilon 1 --ledger b.ledger --test-share 0.2 --out m
train loans.csv --schema loans.toml --epsilon 2 --seed 1 --out seeded
train loans.csv --schema loans.toml --epsilon 1 --model additive --delta 1e-6 --out additive
predict m new_loans.csv --out p.csv --proba
predict m new_loans.csv --score
evaluate m new_loans.csv --epsilon 1 --ledger b.ledger
explain m --html c.html
export m
inspect m
recover .
ledger b.ledger --html b.html --check
account --noise-multiplier 1
theorem ROW-LOCAL
"""
CODE = """
import contextlib, io, json, sys
from noisette.__main__ import main
for line in sys.argv[1].strip().splitlines():
    sys.argv = ["noisette", *line.split()]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            code = end.code
    print(json.dumps([line, code, "sklearn" in sys.modules, said.getvalue()[-300:]]), flush=True)
"""


def test_no_command_on_tables_imports_scikit_learn(tmp_path):
    done = subprocess.run([sys.executable, "-c", CODE, COMMANDS], capture_output=True, text=True,
                          check=True, cwd=tmp_path)  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(COMMANDS.strip().splitlines())
    assert [each for each in found if each[1] != 0 or each[2]] == []
    # the same seed, in a process that has scikit-learn: the same model to the bit
    asked = ("--schema", tmp_path / "loans.toml", "--epsilon", 2, "--seed", 1)
    run("train", tmp_path / "loans.csv", *asked, "--out", tmp_path / "again")
    one, two = (tmp_path / name / "model.noisette" for name in ("seeded", "again"))
    assert one.read_bytes() == two.read_bytes()

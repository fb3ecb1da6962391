# Every target sets up what it needs in .venv and works in a fresh clone with Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PINS   := requirements/constraints.txt
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(PINS)
# One thread: on a busy machine a second one makes small linear algebra slower, not faster. Bytecode is
# kept, whatever the shell says: rewriting all asserts takes half of pytest's start, in each process.
ONE    := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help demo test check docs bench speed slow oldest dist licences format clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

$(VENV)/.core: pyproject.toml $(PINS)
	$(PYTHON) -c 'import sys; sys.exit("noisette needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[plot]'
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) --editable '.[plot,nn,dev]'
	touch $@

demo: $(VENV)/.core ## show what noisette does, in a minute
	$(ONE) $(BIN)/python examples/demo.py

test: $(VENV)/.dev ## run the tests (a few minutes)
	$(ONE) $(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/.dev ## lint, types, import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

slow: $(VENV)/.dev ## long statistical tests and random searches
	$(ONE) $(BIN)/python -m pytest -m slow -n 2 --dist worksteal

# The rooms where versions matter: estimators, files, the command line. Not the maths below them.
# An old package warns of newer ones beside it; that is no fault of ours.
OLDEST := tests/linear tests/sgd tests/tables tests/report tests/end_to_end

$(VENV)-oldest/.ready: pyproject.toml requirements/oldest.txt
	test -x $(VENV)-oldest/bin/python || $(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check \
	  --requirement requirements/oldest.txt --editable '.[plot,parquet]'
	touch $@

oldest: $(VENV)-oldest/.ready ## test with the oldest versions that pyproject.toml allows
	$(ONE) NUMBA_CACHE_DIR=$(VENV)-oldest/numba $(VENV)-oldest/bin/python -m pytest -W ignore::DeprecationWarning $(OLDEST)

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) --editable '.[docs]'
	touch $@

docs: $(VENV)/.docs ## build the site into docs/_build/html; a warning is an error
	$(ONE) $(BIN)/sphinx-build -W --keep-going -q -j 2 -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

dist: $(VENV)/.dev ## build wheel and sdist into dist/ and check them
	rm -rf build dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

licences: $(VENV)/.dev ## list what noisette brings along, with licences
	$(BIN)/python release/licences.py release/licences.md

bench: $(VENV)/.dev ## print the table of speed and memory with goal and verdict, then every benchmark
	$(ONE) $(BIN)/python benchmarks/table.py
	$(ONE) $(BIN)/python benchmarks/imports.py
	$(ONE) $(BIN)/python benchmarks/door.py
	$(ONE) $(BIN)/python benchmarks/accounting.py
	$(ONE) $(BIN)/python benchmarks/solvers.py
	$(ONE) $(BIN)/python benchmarks/linear.py --quick
	$(ONE) $(BIN)/python benchmarks/networks.py
	$(ONE) $(BIN)/python benchmarks/dask_fits.py --rows 2000000
	$(ONE) $(BIN)/python benchmarks/ledger_server.py
	$(ONE) $(BIN)/python benchmarks/audit_mutants.py

speed: $(VENV)/.dev ## fail if a ratio has doubled since it was recorded
	$(ONE) $(BIN)/python benchmarks/table.py --short

format: $(VENV)/.dev ## apply the formatter
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) $(VENV)-oldest build dist docs/_build docs/api .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

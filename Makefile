PYTHON ?= python3
BIN := .venv/bin
INSTALL := -m pip install --quiet --disable-pip-version-check
.DEFAULT_GOAL := help
# Some machines turn bytecode files off, and every test process would compile every file again.
unexport PYTHONDONTWRITEBYTECODE

help:            ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "labeldp needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) -c constraints.txt -e .
	@touch $@

.venv/test: .venv/core
	$(BIN)/python $(INSTALL) -c constraints.txt -e '.[test,check,torch,data,spark,explore,docs]'
	@touch $@

.venv-floors/test: pyproject.toml constraints-floors.txt
	@test -x .venv-floors/bin/python || $(PYTHON) -m venv .venv-floors
	.venv-floors/bin/python $(INSTALL) -c constraints-floors.txt -e '.[test,torch,data,spark,explore]'
	@touch $@

demo: .venv/core  ## set up and run the main job
	$(BIN)/labeldp demo --force

PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile
GROUPS := (pages or site or browser or spark or slow)

test: .venv/test  ## set up and run the tests that a contributor runs after every change
	$(PYTEST) $(ARGS)

test-groups: .venv/test  ## the other tests of CI: pages, site, browser, Spark, slow oracles, more Hypothesis examples
	$(PYTEST) -m "$(GROUPS) and not soak" $(ARGS)
	HYPOTHESIS_PROFILE=long $(PYTEST) -m "hypothesis and not ($(GROUPS) or soak)" $(ARGS)

test-all: test test-groups  ## every test that CI runs

test-soak: .venv/test  ## tests that take an hour or more: thousands of kills, hundreds of millions of rows
	$(BIN)/python -m pytest -m soak $(ARGS)

test-mutants: .venv/test  ## plant bugs one at a time and see whether the tests of `make test` find them
	$(BIN)/python tests/mutants/run.py $(ARGS)

fuzz: .venv/test  ## corrupt the files of every reader, for an hour (ARGS="--seconds 60")
	$(BIN)/python benchmarks/fuzz.py --jobs 2 $(ARGS)

bench: .venv/test  ## all benchmarks beside peers, an hour on two cores; writes docs/research/benchmarks.md
	$(BIN)/python benchmarks/run.py $(ARGS)

bench-quick: .venv/test  ## all benchmarks at small sizes, a few minutes
	$(BIN)/python benchmarks/run.py --quick $(ARGS)

bench-%: .venv/test
	$(BIN)/python benchmarks/run.py --only $* $(ARGS)

test-floors: .venv-floors/test  ## the tests on the oldest versions that pyproject.toml allows
	.venv-floors/bin/python -m pytest -n 2 --dist loadfile $(ARGS)

check: .venv/test  ## ruff, mypy and the import contract
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

docs: .venv/test  ## build the documentation site, warnings as errors
	$(BIN)/python -m sphinx -b html -W --keep-going -n -q -j auto docs docs/_build/html
	@echo "the site: docs/_build/html/index.html (make docs-serve shows it at http://127.0.0.1:8000)"

docs-serve: docs  ## build the site and show it on this machine
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory docs/_build/html 8000

docs-links: .venv/test  ## follow every link to other sites (needs a network)
	$(BIN)/python -m sphinx -b linkcheck -q docs docs/_build/links

clean:           ## remove the environments and caches
	rm -rf .venv .venv-floors benchmarks/.peers .pytest_cache .mypy_cache .ruff_cache dist
	rm -rf docs/_build docs/pictures docs/reference/command docs/reference/generated docs/reference/messages.md

.PHONY: help demo test test-groups test-all test-soak test-mutants fuzz bench bench-quick test-floors check docs docs-serve docs-links clean

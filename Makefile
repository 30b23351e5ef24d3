PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help

help:            ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "labeldp needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/test: .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,torch,data]'
	@touch $@

.venv/check: .venv/test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[check]'
	@touch $@

demo: .venv/core  ## set up and run the main job
	$(BIN)/labeldp demo --force

test: .venv/test  ## set up and run the tests
	$(BIN)/python -m pytest -n 2 $(ARGS)

test-slow: .venv/test  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow $(ARGS)

check: .venv/check  ## ruff, mypy and the import contract
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

clean:           ## remove the environment and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache dist

.PHONY: help demo test test-slow check clean

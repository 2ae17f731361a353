# Everything starts here: `make` prints the list. Needs Python 3.11 or newer and make, nothing else.

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest

WORKERS      ?= 2
FUZZ_SECONDS ?= 600

# A name on the PATH may be a shim without a Python behind it, too old, or lack the venv module: try each one.
CANDIDATES := $(PYTHON) python3 python3.13 python3.12 python3.11 python
USABLE     := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))

# Debian puts servers into /usr/sbin, which is not on every PATH.
MISSING := for one in chromium mosquitto; do PATH="$$PATH:/usr/sbin" command -v $$one >/dev/null || printf ' %s' $$one; done

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup setup-ci run test check lint fuzz soak planted bench docs-check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## build .venv with tamis and the development tools

setup-ci: ## Chromium and Mosquitto from Debian's packages: the tests that use them are not run without
	@missing=$$($(MISSING)); if [ -n "$$missing" ]; then \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  $$sudo apt-get update -q && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing; \
	fi
	@missing=$$($(MISSING)); [ -z "$$missing" ] || { echo "not installed:$$missing" >&2; exit 1; }

run: $(STAMP) ## the pipeline on real data: storms and earthquakes, who has to hear of them, a map
	@$(BIN)/tamis pipeline demo --out build/demo

test: lint ## everything: lint, types, all tests and doctests
	$(PYTEST) -n $(WORKERS)

check: lint ## the fast part of `make test`, under 2 minutes, no Spark
	$(PYTEST) -n $(WORKERS) -m "not (soak or slow or spark or browser)"

lint: $(STAMP) ## ruff and mypy only
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

fuzz: $(STAMP) ## random programs against the language, for FUZZ_SECONDS (600)
	$(BIN)/python -m tests.fuzz_language $(FUZZ_SECONDS)

soak: $(STAMP) ## the large counts; AREA=x selects the tests named so
	$(PYTEST) -m soak $(if $(AREA),-k "$(AREA)")

planted: $(STAMP) ## plant every bug of tests/planted and demand that the tests find it; BUGS=x: those named so
	$(if $(BUGS),,$(PYTEST) -n $(WORKERS) -m soak tests/planted)
	$(BIN)/python -m tests.planted.run --workers $(WORKERS) $(BUGS)

bench: $(VENV)/.installed-bench ## timings, beside the peers of the [bench] extra
	$(BIN)/tamis bench

docs-check: $(STAMP) ## links, examples and the picture in the documents
	$(PYTEST) tests/test_tree_hygiene.py tests/test_architecture.py -k "document or picture"

clean: ## remove .venv and every cache
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@for python in $(CANDIDATES); do \
	  if "$$python" -c "$(USABLE)" >/dev/null 2>&1; then \
	    echo "making $(VENV) with $$("$$python" -V)"; exec "$$python" -m venv --clear $(VENV); \
	  fi; \
	done; \
	echo "tamis needs Python 3.11 or newer with its venv module; found none (name one: make PYTHON=/path/to/python3)" >&2; exit 1

$(STAMP): pyproject.toml | $(BIN)/python
	@echo "installing tamis and its tools into $(VENV): a minute or two the first time"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.installed-bench: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@touch $@

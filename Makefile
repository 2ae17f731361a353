# Everything starts here: `make` prints the list. Needs Python 3.11 or newer and make, nothing else.

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed-dev
LOCK   := requirements/lock.txt
RUN    := spark,lab
comma  := ,
PYTEST := $(BIN)/python -m pytest

WORKERS      ?= 2
FUZZ_SECONDS ?= 600

# A name on the PATH may be a shim without a Python behind it, too old, or lack the venv module: try each one.
CANDIDATES := $(PYTHON) python3 python3.13 python3.12 python3.11 python
USABLE     := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))

# The certificates of the machine, so that a proxy with its own authority works; a progress bar only on a terminal.
export UV_SYSTEM_CERTS ?= 1
QUIET := if [ -t 2 ]; then quiet=; else quiet=--quiet; fi

# An index that pip is configured to use is uv's, too.
INDEX := index=$${UV_DEFAULT_INDEX:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null || true)}; \
	[ -z "$$index" ] || export UV_DEFAULT_INDEX="$$index"

# $(call install,extras) adds extras of tamis to .venv, in the locked versions with the locked hashes.
install = $(QUIET); $(INDEX); \
	$(BIN)/uv pip install $$quiet --python $(BIN)/python --constraint $(LOCK) --build-constraint $(LOCK) --editable '.$(if $(1),[$(1)])'

# Debian puts servers into /usr/sbin, which is not on every PATH.
MISSING := for one in chromium mosquitto nats-server; do PATH="$$PATH:/usr/sbin" command -v $$one >/dev/null || printf ' %s' $$one; done

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup setup-newest setup-ci lock run test check lint fuzz soak bench docs-check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## build .venv with tamis and the development tools, in the locked versions

setup-newest: | $(BIN)/uv ## as setup, with the newest version of everything that pyproject.toml allows
	@echo "installing the newest versions into $(VENV) ..."
	@$(QUIET); $(INDEX); $(BIN)/uv pip install $$quiet --python $(BIN)/python --upgrade --editable '.[dev]'
	@touch $(STAMP)

lock: | $(BIN)/uv ## write requirements/lock.txt anew: the newest versions, with hashes, for every supported system
	@$(INDEX); $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	  --all-extras --custom-compile-command "make lock" \
	  --output-file $(LOCK) pyproject.toml requirements/tools.in

setup-ci: ## Chromium, Mosquitto and NATS from Debian's packages: the tests that use them are not run without
	@missing=$$($(MISSING)); if [ -n "$$missing" ]; then \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  $$sudo apt-get update -q && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing; \
	fi
	@missing=$$($(MISSING)); [ -z "$$missing" ] || { echo "not installed:$$missing" >&2; exit 1; }

run: $(VENV)/.installed-run ## the pipeline on real data: storms and earthquakes, who has to hear of them, a map
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

$(BIN)/uv: $(LOCK) | $(BIN)/python
	@echo "installing uv, which installs everything else ..."
	@sed -n '/^uv==/,/[^\\]$$/p' $(LOCK) >$(VENV)/uv.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $(VENV)/uv.txt
	@touch $@

# Spark is 400 MB that one core unpacks; the other one compiles the kernels of the first job meanwhile.
$(VENV)/.installed-run: pyproject.toml $(LOCK) | $(BIN)/uv
	@echo "installing tamis ..."
	@$(call install)
	@echo "installing Spark, Java and matplotlib, and compiling kernels meanwhile: a minute ..."
	@$(BIN)/tamis kernels >/dev/null & kernels=$$!; $(call install,$(RUN)) || exit 1; wait $$kernels
	@touch $@

$(STAMP): pyproject.toml $(LOCK) | $(BIN)/uv
	@echo "installing tamis with all extras and the development tools: a minute ..."
	@$(call install,dev)
	@touch $@

$(VENV)/.installed-bench: $(STAMP)
	@echo "installing the peers of the benchmarks ..."
	@$(call install,dev$(comma)bench)
	@touch $@

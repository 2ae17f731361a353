# Everything starts here: `make` prints the list. Needs Python 3.11 or newer and make, nothing else.
#
# Three tiers of tests, each holds the one before:
#   make check   two minutes, after each change: units, the shared cases, the house rules, contracts with few examples
#   make test    before a change is merged: every process for real, Spark, brokers, browser, commands; of the expensive tests a
#                sample that moves on with each commit (tests/sampling.py), all of them with SAMPLE=no
#   make soak    hours, in parts of SOAK_MINUTES (40): large counts; a part goes on where the last one ended

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed-dev
LOCK   := requirements/lock.txt
PYTEST := $(BIN)/python -m pytest
# A process that crashes ends the run: xdist may wait forever for the tests that it had.
SPREAD  = -n $(WORKERS) --max-worker-restart=0

WORKERS      ?= 2
FUZZ_SECONDS ?= 600
SOAK_MINUTES ?= 40

# What `make check` runs.
QUICK := tests/unit tests/contract tests/test_cases.py tests/test_architecture.py tests/test_public_names.py \
         tests/test_tree_hygiene.py

# Tests that compile many kernels: one core runs them while the other one lints, and all others find the kernels compiled.
COMPILING := 'tests/unit/index_mics/test_link.py::test_a_receiver_always_equals_the_union[0]' \
	'tests/attacks/test_crafted_snapshots.py::test_an_array_that_leads_out_of_its_memory_is_refused[plain.segment0.column_axes-0]'

# A name on the PATH may be a shim without a Python behind it, too old, or lack the venv module: try each one.
CANDIDATES := $(PYTHON) python3 python3.13 python3.12 python3.11 python
USABLE     := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))

# Tests start hundreds of Python processes: without bytecode on disk each of them would compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

# The certificates of the machine, so that a proxy with its own authority works; a progress bar only on a terminal.
export UV_SYSTEM_CERTS ?= 1
QUIET := if [ -t 2 ]; then quiet=; else quiet=--quiet; fi

# An index that pip is configured to use is uv's, too.
INDEX := index=$${UV_DEFAULT_INDEX:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null || true)}; \
	[ -z "$$index" ] || export UV_DEFAULT_INDEX="$$index"

# What the pipeline needs, what development needs, and the systems that benchmarks are measured against.
RUN   := --editable '.[spark,plots]'
DEV   := --editable '.[dev]' --editable src/tamis_bench --editable src/tamis_lab
PEERS := $(DEV) --editable 'src/tamis_bench[peers]'

# $(call install,packages) adds packages to .venv, in the locked versions with the locked hashes.
install = $(QUIET); $(INDEX); \
	$(BIN)/uv pip install $$quiet --python $(BIN)/python --constraint $(LOCK) --build-constraint $(LOCK) $(1)

# Debian puts servers into /usr/sbin, which is not on every PATH, and PostgreSQL into a folder for each of its versions.
MISSING := for one in chromium mosquitto nats-server; do PATH="$$PATH:/usr/sbin" command -v $$one >/dev/null || printf ' %s' $$one; done; \
	PATH="$$PATH:$$(echo /usr/lib/postgresql/*/bin | tr ' ' ':')" command -v postgres >/dev/null || printf ' postgresql'

# Debian's package makes a database and starts it, unless this says otherwise before it is installed.
NO_CLUSTER := /etc/postgresql-common/createcluster.conf

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup setup-newest setup-ci lock sbom run test check lint fuzz soak planted coverage mutants bench docs docs-check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## build .venv with tamis and the development tools, in the locked versions

setup-newest: | $(BIN)/uv ## as setup, with the newest version of everything that pyproject.toml allows
	@echo "installing the newest versions into $(VENV) ..."
	@$(QUIET); $(INDEX); $(BIN)/uv pip install $$quiet --python $(BIN)/python --upgrade $(DEV)
	@touch $(STAMP)

lock: | $(BIN)/uv ## write requirements/lock.txt anew: the newest versions, with hashes, for every supported system
	@$(INDEX); $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	  --all-extras --custom-compile-command "make lock" --no-emit-package tamis --no-emit-package tamis-bench \
	  --output-file $(LOCK) pyproject.toml src/tamis_bench/pyproject.toml src/tamis_lab/pyproject.toml requirements/tools.in
	@$(INDEX); $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --constraint $(LOCK) \
	  --extra server --extra postgres --extra jwt --extra nats --extra otel --custom-compile-command "make lock" \
	  --output-file deploy/requirements.txt pyproject.toml

sbom: ## write build/tamis.cdx.json: every package of the lock file with its version and hashes, as CycloneDX
	@mkdir -p build && python3 scripts/sbom.py build/tamis.cdx.json && echo build/tamis.cdx.json

setup-ci: ## Chromium, Mosquitto, NATS and PostgreSQL from Debian's packages: the tests that use them are not run without
	@missing=$$($(MISSING)); if [ -n "$$missing" ]; then \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  [ -e $(NO_CLUSTER) ] || { $$sudo mkdir -p $(dir $(NO_CLUSTER)) && echo 'create_main_cluster = false' | $$sudo tee $(NO_CLUSTER); }; \
	  $$sudo apt-get update -q && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing; \
	fi
	@missing=$$($(MISSING)); [ -z "$$missing" ] || { echo "not installed:$$missing" >&2; exit 1; }

run: $(VENV)/.installed-run ## the pipeline on real data: storms and earthquakes, who has to hear of them, a map
	@$(BIN)/tamis pipeline demo --out build/demo

test: $(STAMP) ## lint, types, tests and doctests; SAMPLE=no: all of the expensive tests, not a sample
	@echo "linting, and compiling more kernels meanwhile ..."
	@mkdir -p build
	@{ $(BIN)/tamis kernels --only broker && $(BIN)/python -m tests.spark.worlds && $(PYTEST) -q $(COMPILING); } >build/kernels.log 2>&1 & kernels=$$!; \
	  $(MAKE) --no-print-directory lint || exit 1; wait $$kernels || { cat build/kernels.log; exit 1; }
	$(PYTEST) $(if $(filter no,$(SAMPLE)),,-p tests.sampling) $(SPREAD)

check: lint ## the fast part of `make test`: two minutes, no processes, no Spark
	HYPOTHESIS_PROFILE=quick $(PYTEST) -p tests.sampling $(SPREAD) $(QUICK) -m "not (soak or slow or spark or browser)"

lint: $(STAMP) ## ruff, mypy, codespell and plain words only
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/python scripts/plain_words.py

fuzz: $(STAMP) ## random input for FUZZ_SECONDS (600): AREA=language, or another module of tests/fuzz
	$(BIN)/python -m tests.fuzz.$(or $(AREA),language) $(FUZZ_SECONDS)

soak: $(STAMP) ## the large counts and new examples of every property, SOAK_MINUTES (40) at a time; AREA=x selects by name
	SOAK_MINUTES=$(SOAK_MINUTES) HYPOTHESIS_PROFILE=soak $(PYTEST) -p tests.soak -m "soak or hypothesis" $(if $(AREA),-k "$(AREA)")

planted: $(STAMP) ## plant every bug of tests/planted and demand that the tests find it; BUGS=x: those named so
	$(if $(BUGS),,$(PYTEST) $(SPREAD) -m soak tests/planted)
	$(BIN)/python -m tests.planted.run --workers $(WORKERS) $(BUGS)

coverage: $(STAMP) ## which branches the tests take; lists the modules below 90 %
	$(BIN)/python scripts/measure_coverage.py

mutants: $(STAMP) ## a sample of MUTANTS (20) small faults, drawn by SEED (0): which of them no test notices
	$(BIN)/python scripts/mutants.py --count $(or $(MUTANTS),20) --seed $(or $(SEED),0)

bench: $(VENV)/.installed-bench ## timings, beside other systems
	$(BIN)/tamis bench

docs: $(VENV)/.installed-docs ## the documentation as a site, with a reference of the Python API and of HTTP: build/site/index.html
	$(BIN)/python scripts/build_docs.py

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
	@$(call install,--editable .)
	@echo "installing Spark, Java and matplotlib, and compiling kernels meanwhile: a minute ..."
	@$(BIN)/tamis kernels --only job >/dev/null & kernels=$$!; $(call install,$(RUN)) || exit 1; wait $$kernels
	@touch $@

$(STAMP): pyproject.toml $(LOCK) | $(BIN)/uv
	@echo "installing tamis ..."
	@$(call install,--editable .)
	@echo "installing all extras and the development tools, and compiling kernels meanwhile: a minute ..."
	@$(BIN)/tamis kernels --only job >/dev/null & kernels=$$!; $(call install,$(DEV)) || exit 1; wait $$kernels
	@touch $@

$(VENV)/.installed-docs: $(STAMP)
	@echo "installing the site generator ..."
	@$(call install,--editable '.[docs]')
	@touch $@

$(VENV)/.installed-bench: $(STAMP)
	@echo "installing the peers of the benchmarks ..."
	@$(call install,$(PEERS))
	@touch $@

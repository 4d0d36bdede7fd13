# Every target installs what it needs into .venv, from the locks in requirements/. Needs make and Python 3.11 or newer.

PYTHONS := python3.13 python3.12 python3.11 python3
VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
PIP := $(PYTHON) -m pip --disable-pip-version-check
LOCKED := $(VENV)/.locked
INSTALLED := $(VENV)/.installed
TESTS := tests
# Which hubs the tests of the hub are held to: the embedded one, a real API server, or both.
TARGET := both
# Workers of the test run: one per core, but no more than a laptop stands.
PYTEST := $(PYTHON) -m pytest -n auto --maxprocesses 4
# In CI sets are walked in one order, as examples are drawn alike (tests/conftest.py): tests in virtual time run the same.
ifdef CI
export PYTHONHASHSEED := 0
endif
DIR := tests/vectors/data
IGNORE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help up test test-long assets conformance lint fmt types bench docs gen vectors lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

up: $(INSTALLED) ## Run a whole fleet on this machine: hub, controller, simulated member clusters
	$(BIN)/fleet up

# The whole suite needs the programs: they are built before the first test starts, which takes a quarter of an hour, once.
test test-long: WITH := helm kube-controller-manager kube-scheduler kwok
test: $(INSTALLED) $(if $(filter tests,$(TESTS)),assets) ## Run the tests (TESTS=path for some of them)
	TARGET=$(TARGET) $(PYTEST) $(TESTS)

test-long: $(INSTALLED) $(if $(filter tests,$(TESTS)),assets) ## Run the tests, the long ones included
	FLEET_LONG=1 TARGET=$(TARGET) $(PYTEST) $(TESTS)

assets: $(INSTALLED) ## Build etcd, kube-apiserver and kubectl for tests, once, and print their folder (WITH="helm")
	@$(PYTHON) -m tests.control_plane.assets $(if $(WITH),--with $(WITH))

conformance: $(INSTALLED) assets ## Hold the embedded hub to the real API server (TARGET=embedded|real|both)
	TARGET=$(TARGET) $(PYTEST) tests/control_plane tests/conformance

lint: $(INSTALLED) ## Check lint, format, types, layers and links
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PYTHON) docs/links.py

fmt: $(INSTALLED) ## Format the code and mend what lint can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(INSTALLED) ## Check the types only
	$(BIN)/mypy

bench: $(INSTALLED) assets ## Measure the decision core, the client, the embedded hub and the scheduler
	$(PYTHON) -m tests.bench

docs: $(INSTALLED) ## Check that every link of the documentation leads somewhere
	$(PYTHON) docs/links.py

gen: $(INSTALLED) ## Generate what is committed but not written by hand: CRDs, schemas, pages of settings and values
	$(PYTHON) -m fleet.model.crd.generator charts/fleet/files/crds
	$(PYTHON) -m fleet.cli.output.report
	$(PYTHON) -m fleet.settings.reference docs/settings.md
	$(PYTHON) -m charts.schema charts/fleet
	$(PYTHON) -m charts.readme charts/fleet
	$(PYTHON) -m api.openapi api/openapi.json

vectors: $(INSTALLED) ## Compare decisions with recorded ones (DIR=folder IGNORE=tags)
	$(PYTHON) -m tests.vectors.runner "$(DIR)" --ignore "$(IGNORE)"

# --- installing -------------------------------------------------------------------------------------------------------

# A name on the PATH may be a stub or lack venv, so each candidate has to show that it works.
$(PYTHON):
	@for python in $(PYTHONS); do \
	  if $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "$$python -m venv $(VENV)"; exec $$python -m venv $(VENV); \
	  fi; \
	done; \
	echo "Fleet needs Python 3.11 or newer with its venv module; none of these is one: $(PYTHONS)" >&2; exit 1

$(LOCKED): requirements/dev.txt | $(PYTHON)
	$(PIP) install --quiet --require-hashes --requirement requirements/dev.txt
	@touch $@

$(INSTALLED): pyproject.toml $(LOCKED)
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# --- locking ----------------------------------------------------------------------------------------------------------

# One resolution for every platform and every Python from the floor up. No addresses: where packages come from is the
# business of whoever installs them (docs/adr/0005).
COMPILE := UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-emit-index-url --no-emit-find-links

lock: $(INSTALLED) ## Renew the locks in requirements/ (UPGRADE=1 for newer versions)
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --output-file requirements/runtime.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --group dev --constraints requirements/runtime.txt \
	  --output-file requirements/dev.txt
	$(COMPILE) pyproject.toml --extra postgres --constraints requirements/dev.txt --output-file requirements/image.txt
	echo hatchling | $(COMPILE) --no-annotate --constraints requirements/dev.txt - --output-file requirements/build.txt
	$(PYTHON) -c 'import tomllib; print(*(line for line in \
	  tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"] if line.startswith("numpy")))' \
	  | $(COMPILE) --resolution lowest --no-annotate - --output-file requirements/numpy-lowest.txt

clean: ## Remove everything that a target made
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

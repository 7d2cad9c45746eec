# Everything runs in .venv, which the first command makes. Needed: Python 3.11+, Java 17+, make.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := $(VENV)/.installed-extras
QUICKER := $(VENV)/.class-data
S3 := .servers/bin/versitygw
GCS := .servers/bin/fake-gcs-server
AZURE := .servers/node_modules/.bin/azurite-blob
QUICK := not spark and not slow and not long and not airflow and not quality and not browser

.DEFAULT_GOAL := help
.PHONY: help setup hooks demo test check lint types contracts quick slow long mutations docs format browser servers stores clean dbt-env sites

help: ## Show what there is
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(QUICKER) ## Make the environment, and what lets Spark start quicker

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and was not found; name it: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo,dev,connect]'
	@touch $@

$(QUICKER): $(STAMP)
	$(BIN)/materializer setup
	@touch $@

$(EXTRAS): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo,dev,connect,airflow,quality,calendars,docs,notebooks,browser,openlineage,metrics]'
	@touch $@

hooks: ## Let git check the message of each commit
	git config core.hooksPath .ci/hooks

demo: $(STAMP) ## Run the main job on a year of real flights
	$(BIN)/materializer demo

test: $(EXTRAS) ## Run the tests (without the slow and the long ones)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=25 -m "not slow and not long"

check: lint types contracts quick ## Run the quick half of what CI runs

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

contracts: $(STAMP)
	$(BIN)/lint-imports

quick: $(STAMP)
	$(BIN)/python -m pytest -q -m "$(QUICK)"

slow: $(EXTRAS) ## Go on with the slow tests, which `make test` leaves out, shard by shard (MINUTES=30 ends in time)
	$(BIN)/python -m tests.shards $(if $(MINUTES),--minutes $(MINUTES))

long: $(EXTRAS) ## Run the long profile of the property tests that need no Spark
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -n 2 --dist loadfile --durations=25 -m "long or ($(QUICK))"

mutations: $(STAMP) ## Plant mistakes in a copy of the code, and see that a test finds each
	$(BIN)/python -m tests.mutations

docs: $(EXTRAS) ## Make the documentation's site in build/site; a broken link is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site

sites: $(EXTRAS) ## Make the site in build/sites, with a choice of versions (TAGS="v1 v2" builds these, too)
	$(BIN)/python -m tests.docs.site $(TAGS)

format: $(STAMP) ## Format and mend what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

browser: ## Install Chromium for the tests of the report page, where this user may install packages
	@for p in chromium chromium-browser google-chrome; do command -v $$p >/dev/null && exit 0; done; \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || \
	  echo "no Chromium, and none could be installed: tests of pages in a browser will be skipped"

servers: $(S3) ## Install the S3 server that some tests need, where Go is there
stores: $(S3) $(GCS) $(AZURE) ## Install the servers of all three clouds, where Go and Node are there

$(S3):
	@command -v go >/dev/null || { echo "Go was not found: tests that need an S3 server will be skipped"; exit 0; }; \
	GOBIN=$(CURDIR)/.servers/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

$(GCS):
	@command -v go >/dev/null || { echo "Go was not found: there will be no GCS server"; exit 0; }; \
	GOBIN=$(CURDIR)/.servers/bin go install github.com/fsouza/fake-gcs-server@v1.56.1

$(AZURE):
	@command -v npm >/dev/null || { echo "Node was not found: there will be no Azure server"; exit 0; }; \
	npm install --silent --no-save --prefix $(CURDIR)/.servers azurite@3.37.0

dbt-env: $(STAMP) ## Make the environment with dbt in which some tests run
	$(BIN)/python -m tests.adapters.dbt.environment

clean: ## Remove the environment and what tools left behind
	rm -rf $(VENV) .demo .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

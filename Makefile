# Every target makes the environment it needs by itself: `.venv` from the pinned requirements, once, and again when they
# change. Paths are relative throughout, so that a checkout in a folder with blanks in its name works.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# Those of a fleet that names none, and those that are there for the naming; where each finds a provider on this machine.
CHANNELS := firebase apns webhook
FURTHER := ntfy email
PORT_firebase := 8091
PORT_apns := 8092
PORT_webhook := 8093
PORT_ntfy := 8094
PORT_email := 8095
TARGET_ntfy := http://127.0.0.1:$(PORT_ntfy)
TARGET_email := smtp://127.0.0.1:$(PORT_email)

BIN := .venv/bin
LOCKED := .venv/.locked
ENV := .venv/.installed
# buf finds the environment's python, and with it the generator, on the path.
BUF := PATH="$(CURDIR)/$(BIN):$$PATH" buf

# What may be set on the command line.
STAND ?=
BROKERS ?=
FAIL_RATE_503 ?= 0.5
SEED_MESSAGES ?= 100
CHANNEL ?= firebase
SEED ?=
MOCKS ?= $(CHANNELS)
MINUTES ?=
PYTEST_FLAGS ?=
ROUTER_FLAGS ?=
SENDER_FLAGS ?=
LOCK_FLAGS ?=
SCENARIO ?=
KEEP ?=

SENDERS := $(patsubst %,run-%-sender,$(CHANNELS) $(FURTHER))
RECORDERS := $(patsubst %,run-%-dlq,$(CHANNELS) $(FURTHER))
SERVED := db-init db-shell db-truncate db-history topic-create-all topic-delete-all run-router run-router-dlq \
  $(SENDERS) $(RECORDERS) seed replay

# The stand's addresses, the same for each of the three, where the caller's environment names no others. Only for the
# targets that talk to the servers: to `up` an address in the environment means "this server exists, start none", so it
# must not see the defaults.
$(SERVED): export KAFKA_BOOTSTRAP ?= 127.0.0.1:$(or $(RINGONCE_STAND_KAFKA_PORT),19092)
$(SERVED): export DATABASE_URL ?= postgresql://ringonce@127.0.0.1:$(or $(RINGONCE_STAND_POSTGRES_PORT),15441)/ringonce

# What signs the calls, for the mocks and for the senders alike: a development secret, unless the caller has its own.
# Only for the targets that start them: the tests choose secrets of their own.
SIGNED := up run-mocks $(SENDERS)
$(SIGNED): export MOCK_SECRET ?= development
$(SIGNED): export RINGONCE_CHANNELS__FIREBASE__SECRET ?= $(MOCK_SECRET)
$(SIGNED): export RINGONCE_CHANNELS__APNS__SECRET ?= $(MOCK_SECRET)
$(SIGNED): export RINGONCE_CHANNELS__WEBHOOK__SECRET ?= $(MOCK_SECRET)

# The mock of a mail server speaks in the clear.
run-email-sender: export RINGONCE_CHANNELS__EMAIL__STARTTLS ?= off
run-email-sender: export RINGONCE_CHANNELS__EMAIL__FROM_ADDRESS ?= ringonce@example.org

##@ General

.PHONY: help
help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z][a-z0-9-]*:.*## / { printf "  %-24s %s\n", $$1, $$2 } \
	  /^## / { split($$0, word, " "); sub(/^## [^ ]+ /, ""); printf "  %-24s %s\n", word[2], $$0 }' Makefile

.PHONY: env
env: $(ENV) ## Make or renew .venv (every other target does so when it has to)

.PHONY: locks
locks: $(LOCKED) ## Resolve requirements/ anew (LOCK_FLAGS=--upgrade for the newest)
	@$(BIN)/uv pip compile pyproject.toml --extra mock $(LOCK) -o requirements/runtime.txt
	@$(BIN)/uv pip compile pyproject.toml --extra stand --extra otel --group dev -c requirements/runtime.txt $(LOCK) \
	  -o requirements/dev.txt

LOCK = --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
  --custom-compile-command "make locks" $(LOCK_FLAGS)

# What an interrupted run has left is cleared away: half a package looks like a whole one.
$(LOCKED): requirements/dev.txt
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3; do \
	  if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    found=$$python; break; \
	  fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
	  echo "Python 3.11 or newer is needed, with its venv module; PYTHON=... names one" >&2; exit 1; \
	fi; \
	if [ ! -e $@ ]; then anew=--clear; fi; \
	echo "making .venv with $$found" && "$$found" -m venv $${anew:-} .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt \
	  >.venv/pip.log 2>&1 || { \
	  sed -n '/^ERROR/{p;q;}' .venv/pip.log >&2; \
	  echo "the packages could not be installed; is the index within reach (PIP_INDEX_URL)? See .venv/pip.log" >&2; exit 1; }
	@touch $@

# By uv: pip writes the environment's path as it is into the first line of the executables, where a blank ends it.
$(ENV): $(LOCKED) pyproject.toml $(wildcard cmd/*)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --reinstall-package ringonce -e .
	@touch $@

##@ The first minute

.PHONY: demo
demo: $(ENV) ## Watch 100 notifications delivered, retried, dead-lettered, replayed (STAND=native or embedded)
	@$(BIN)/ringonce demo $(if $(STAND),--stand $(STAND))

##@ The stand: Kafka, PostgreSQL, mock providers (KAFKA_BOOTSTRAP, DATABASE_URL in the environment: use these instead)

.PHONY: up
up: $(ENV) ## Start what is missing and say where it is (STAND=docker, native or embedded; BROKERS=3)
	@$(BIN)/ringonce stand $(if $(BROKERS),--brokers $(BROKERS)) up $(if $(STAND),--stand $(STAND))

.PHONY: down
down: $(ENV) ## Stop what `up` started, and nothing else
	@$(BIN)/ringonce stand down

.PHONY: logs
logs: $(ENV) ## Show the end of the stand's logs
	@$(BIN)/ringonce stand logs

.PHONY: ps
ps: $(ENV) ## Show what runs
	@$(BIN)/ringonce stand ps

##@ Database and topics

.PHONY: db-init
db-init: $(ENV) ## Bring the schema up to date
	@$(BIN)/ringonce db init

.PHONY: db-shell
db-shell: $(ENV) ## Open a SQL shell
	@$(BIN)/ringonce db shell

.PHONY: db-truncate
db-truncate: $(ENV) ## Delete all rows
	@$(BIN)/ringonce db truncate

.PHONY: db-history
db-history: $(ENV) ## Count the history by channel and status
	@$(BIN)/ringonce history

.PHONY: topic-create-all
topic-create-all: $(ENV) ## Create all topics with their settings
	@$(BIN)/ringonce topics create

.PHONY: topic-delete-all
topic-delete-all: $(ENV) ## Delete all topics with what is in them
	@$(BIN)/ringonce topics delete --yes

##@ Processes (in the foreground; Ctrl-C stops them in order)

.PHONY: run-router
run-router: $(ENV) ## Forward notification-events by channel (ROUTER_FLAGS=...)
	@$(BIN)/router $(ROUTER_FLAGS)

.PHONY: run-router-dlq
run-router-dlq: $(ENV) ## Record what the router could not forward
	@$(BIN)/router --mode dlq $(ROUTER_FLAGS)

## run-CHANNEL-sender Deliver one channel: firebase, apns, webhook, ntfy or email (SENDER_FLAGS=...)
.PHONY: $(SENDERS)
$(SENDERS): run-%-sender: $(ENV)
	@$(BIN)/sender --channel $* --target $(or $(TARGET_$*),http://127.0.0.1:$(PORT_$*)/send) $(SENDER_FLAGS)

## run-CHANNEL-dlq Record one channel's dead letters
.PHONY: $(RECORDERS)
$(RECORDERS): run-%-dlq: $(ENV)
	@$(BIN)/sender --channel $* --mode dlq $(SENDER_FLAGS)

##@ Mock providers

.PHONY: run-mocks
run-mocks: $(ENV) ## Run the three mocks without the rest of the stand (MOCKS="ntfy email" for others)
	@pids=; trap 'kill $$pids 2>/dev/null || true; wait' EXIT; trap 'exit 0' INT TERM; \
	for mock in $(foreach channel,$(MOCKS),$(channel):$(PORT_$(channel))); do \
	  $(BIN)/ringonce mock --name "$${mock%:*}" --port "$${mock#*:}" & pids="$$pids $$!"; \
	done; \
	wait

.PHONY: chaos-fail-50
chaos-fail-50: $(ENV) ## Let half of all calls fail with 503 (FAIL_RATE_503=0.9 for more)
	@$(BIN)/ringonce mocks chaos FAIL_RATE_503=$(FAIL_RATE_503)

.PHONY: chaos-clear
chaos-clear: $(ENV) ## Let the mocks behave again
	@$(BIN)/ringonce mocks clear

.PHONY: mock-stats
mock-stats: $(ENV) ## Show what the mocks were asked and answered
	@$(BIN)/ringonce mocks stats

##@ Notifications

.PHONY: replay
replay: $(ENV) ## Send a channel's dead letters again (CHANNEL=firebase)
	@$(BIN)/ringonce replay --channel $(CHANNEL)

.PHONY: seed
seed: $(ENV) ## Produce notifications, round-robin over the channels (SEED_MESSAGES=100)
	@$(BIN)/ringonce seed --count $(SEED_MESSAGES)

##@ The wire contract

.PHONY: proto-gen
proto-gen: $(LOCKED) ## Generate gen/ from proto/
	@$(BUF) generate

.PHONY: proto-lint
proto-lint: $(LOCKED) ## Check proto/ against buf's rules and format
	@$(BUF) lint
	@$(BUF) format --diff --exit-code

.PHONY: verify
verify: $(LOCKED) ## Generate again beside gen/ and compare
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && \
	$(BUF) generate --output "$$fresh" && \
	if diff -r -x __pycache__ gen "$$fresh/gen"; then echo "gen/ is what proto/ generates"; \
	else echo "gen/ differs from what proto/ generates: run 'make proto-gen'" >&2; exit 1; fi

.PHONY: picture
picture: $(ENV) ## Run the demo and draw docs/demo.svg from it (STAND=native or embedded)
	@$(BIN)/ringonce demo $(if $(STAND),--stand $(STAND)) --picture docs/demo.svg

.PHONY: docs
docs: $(ENV) ## Generate docs/configuration.md, docs/observability.md and the tables of docs/semantics.md from the code
	@$(BIN)/python docs/generate_configuration.py
	@$(BIN)/python docs/generate_semantics.py
	@$(BIN)/python docs/generate_observability.py

##@ Checks and tests

.PHONY: check
check: lint types imports proto-lint verify compose-lint ## Run all checks that need no server

.PHONY: lint
lint: $(LOCKED) ## ruff: rules and format
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

.PHONY: types
types: $(ENV) ## mypy, strict
	@$(BIN)/mypy

.PHONY: imports
imports: $(ENV) ## import-linter: dependencies point one way, each library has one home
	@$(BIN)/lint-imports --no-logo

.PHONY: compose-lint
compose-lint: $(LOCKED) ## The compose files against the compose schema
	@$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml docker-compose.override.yml

.PHONY: test
test: $(ENV) ## All tests, on servers that they start themselves; real ones where Java is there (PYTEST_FLAGS=...)
	@$(BIN)/pytest $(PYTEST_FLAGS)

.PHONY: test-integration
test-integration: $(ENV) ## Only the integration tests
	@$(BIN)/pytest $(PYTEST_FLAGS) tests/integration

.PHONY: walkthrough
walkthrough: $(ENV) ## Do what README does by hand, on the native stand, and check what each command shows
	@$(BIN)/pytest $(PYTEST_FLAGS) tests/e2e/walkthrough.py

##@ Faults (docs/reliability.md)

.PHONY: chaos
chaos: $(ENV) ## Break things under load for under three minutes, and see that every promise holds (SEED=...)
	@$(BIN)/python -m tests.chaos.run $(if $(SEED),--seed $(SEED))

.PHONY: chaos-long
chaos-long: $(ENV) ## Every fault there is, each in a run of its own; goes on where it stopped (MINUTES=..., SEED=...)
	@$(BIN)/python -m tests.chaos.run --long --page docs/reliability.md $(if $(MINUTES),--minutes $(MINUTES)) \
	  $(if $(SEED),--seed $(SEED))

.PHONY: chaos-mutants
chaos-mutants: $(ENV) ## Put known mistakes into a copy of the product, one by one: each must turn a run red
	@$(BIN)/python -m tests.chaos.mutants

##@ Benchmarks

.PHONY: bench
bench: $(ENV) ## Measure for up to a quarter of an hour; writes bench/results/latest.json (SCENARIO=drain: that alone)
	@$(BIN)/python -m bench.full $(SCENARIO:%=--scenario %) $(if $(KEEP),--keep)

.PHONY: bench-quick
bench-quick: $(ENV) ## The same in small, within a minute; writes bench/results/quick.json
	@$(BIN)/python -m bench.quick

##@ Packages

.PHONY: build
build: $(LOCKED) ## Build the wheel and the source archive into dist/
	@$(BIN)/python -m build --no-isolation

.PHONY: clean
clean: ## Stop the stand, remove its data, and what was built and cached (not .venv, not Kafka's jars)
	@if [ -x $(BIN)/ringonce ]; then $(BIN)/ringonce stand down --purge; fi
	@rm -rf dist build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find bench cmd gen src tests -type d -name __pycache__ -prune -exec rm -rf {} +

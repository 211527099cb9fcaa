# Everything a person or CI runs. `make help` lists it. Set-up happens on its own; see setup/bootstrap.py.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

# The first of these that is Python 3.11 or newer, unless PYTHON names one.
PYTHON ?= $(shell for name in python3 python3.11 python3.12 python3.13 python3.14; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$name"; break; }; done)
UV ?= uv
ARGS ?=

BIN := .venv/bin
PY := $(BIN)/python
# Node.js stands in .venv where the machine has none.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONUNBUFFERED := 1

# Folders of Python that are checked; the generated code in protos/ is not.
CODE := $(wildcard bench cli contract control_plane edge_agent migrations pprof services setup tests)
TYPED := $(filter-out migrations,$(CODE))

.PHONY: help
help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: setup-run ## start it all on this machine, profile two Workers; ONCE=1 ends there
	@$(PY) -m services.demo $(if $(filter-out 0,$(ONCE)),--once)

.PHONY: test
test: setup-dev ## every test; ARGS="tests/unit -k top" for some
	@$(if $(ARGS),:,npm --prefix dashboard run --silent test)
	@$(PY) -m pytest -n 2 $(if $(ARGS),--dist loadgroup $(ARGS),--ignore=tests/e2e --ignore=tests/browser)
	@# On their own: they share one fleet of sixteen processes, and measure nothing well beside others.
	@$(if $(ARGS),:,$(PY) -m pytest tests/e2e)
	@$(if $(ARGS),:,$(PY) -m pytest tests/browser)

.PHONY: fuzz
fuzz: setup-dev ## hostile profiles and captures, EXAMPLES=20000 of each kind
	ISOPROF_FUZZ=$(EXAMPLES) $(PY) -m pytest -n 2 --timeout 7200 tests/unit/pprof/test_hostile.py $(ARGS)

EXAMPLES ?= 20000

.PHONY: check
check: setup-dev ## formatting, types, layers, schemas, container files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports
	node_modules/.bin/buf lint
	$(PY) setup/gen.py --check
	npm --prefix dashboard run --silent check
	$(PY) setup/bundle.py
	$(BIN)/hadolint services/Dockerfile
	@if docker compose version >/dev/null 2>&1; then echo docker compose config -q; docker compose config -q; \
	else echo "docker compose is not here: docker-compose.yml is not checked by it"; fi

.PHONY: gen
gen: setup-dev ## protobuf code, after a change to a .proto
	$(PY) setup/gen.py

.PHONY: lock
lock: ## requirements/*.txt and package-lock.json, after a change to what they lock (needs uv and npm)
	@command -v $(UV) >/dev/null || { echo "make lock needs uv: https://docs.astral.sh/uv/"; exit 1; }
	@command -v npm >/dev/null || { echo "make lock needs npm"; exit 1; }
	cd requirements && $(UV) pip compile $(COMPILE) -o dev.txt dev.in
	cd requirements && $(UV) pip compile $(COMPILE) -c dev.txt -o run.txt run.in
	cd requirements && $(UV) pip compile $(COMPILE) -o node.txt node.in
	npm install $(NPM_LOCK)
	npm --prefix dashboard install $(NPM_LOCK)

NPM_LOCK := --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund
COMPILE := --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock"

.PHONY: clean
clean: ## remove what set-up, demo and tests made
	rm -rf .venv node_modules dashboard/node_modules dashboard/dist .isoprof .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -f worker-cpu.pprof worker-heap.pprof
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: setup-run setup-dev
setup-run setup-dev: setup-%: python-here
	@"$(PYTHON)" setup/bootstrap.py $*

.PHONY: python-here
python-here:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and none was found (tried python3, python3.11 .. python3.14)." \
		"Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }

# Two commands are enough: `make run` starts Evertick on the examples, `make test` proves it.
# Needs Python 3.11 or newer with pip; everything else is fetched by its locked hash.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
RUN    := $(VENV)/.installed-run
DEV    := $(VENV)/.installed-dev
BENCH  := $(VENV)/.installed-bench
# `-n auto`: as many workers as tests/conftest.py says.
PYTEST := $(BIN)/python -m pytest
# The page, and what it is made of.
PAGE   := src/evertick/web/static/index.html
PARTS  := $(shell find web -path web/node_modules -prune -o -path web/dev -prune -o -type f -print 2>/dev/null)

# Every command here starts Python many times; compiled once, it starts faster.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run web test test-kubernetes test-image test-systemd lint types unused wording check fast format bench plots soak seeds soak-nodes growth faults fuzz docs pictures lock release clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: $(RUN) ## start Evertick on examples/, with the page
	@$(MAKE) --no-print-directory web || echo "going on without the page; the API and the command line work without it" >&2
	@$(BIN)/evertick serve examples

web: $(PAGE) ## build the page into src/evertick/web/static

test: $(DEV) $(PAGE) ## provision what the tests need, run everything
	@$(BIN)/python -m tests.provision
	$(PYTEST) -n auto --dist loadfile

test-kubernetes: $(DEV) ## build (once) and start a real cluster, run the tests that need one; as root
	@$(BIN)/python -m tests.kubernetes.binaries >/dev/null
	$(PYTEST) -n 0 tests/kubernetes

test-image: $(DEV) $(PAGE) ## build the container image, start it without rights on a read-only file system, run its tests
	@$(BIN)/python -m tests.provision
	$(PYTEST) -n 0 --timeout 1500 tests/image

test-systemd: $(DEV) ## start systemd in namespaces, run the tests that need it; as root
	$(BIN)/python -m tests.systemd.boot $(PYTEST) -n 0 tests/systemd

lint: $(DEV) ## format, lint, types, dead code, wording
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j 2 types unused wording

types: $(DEV)
	$(BIN)/mypy

unused: $(DEV)
	$(BIN)/vulture

wording: $(DEV)
	$(BIN)/python -m tests.voice

# mypy keeps one core busy for most of what lint takes: the fast tests have the other one meanwhile.
check: $(DEV) ## what lint does, architecture, fast tests: about a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j 2 types unused wording fast

fast: $(DEV)
	$(PYTEST) -n auto -q -m "not slow" --hypothesis-profile quick --dist loadfile

format: $(DEV) ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH) $(PAGE) ## measure, side by side with the peers, into docs/results/bench; writes docs/benchmarks.md; BENCH_ONLY='storm runs' chooses
	$(BIN)/python -m bench $(BENCH_ONLY)
	$(MAKE) --no-print-directory plots

plots: $(BENCH) ## draw the plots of the recorded results anew, and write the pages that show them
	$(BIN)/python -m bench.plots
	$(BIN)/python -m tests.generate_docs

soak: $(DEV) $(PAGE) ## 30 minutes with 1,000 jobs, requests, an open page and random kills, into docs/results; SOAK_MINUTES
	@$(BIN)/python -m tests.provision
	$(BIN)/python -m tests.soak $(SOAK_MINUTES)
	$(MAKE) --no-print-directory plots

seeds: $(DEV) ## all of what `make test` tries a share of, then seed after seed until stopped; SEEDS_START names the first
	@$(BIN)/python -m tests.provision
	EVERTICK_WHOLE=1 $(PYTEST) -n auto --dist worksteal --timeout 7200 tests/simulator tests/crash tests/processes/test_kills.py
	EVERTICK_WHOLE=1 $(PYTEST) -n auto --timeout 7200 -m hypothesis
	$(BIN)/python -m evertick.testing.simulator --forever --start $(or $(SEEDS_START),2000)

soak-nodes: $(DEV) ## three nodes on one database under 1,000 occurrences a second, one killed; then with a fleet, all in trouble
	@$(BIN)/python -m tests.provision
	$(BIN)/python -m tests.processes.soak_nodes
	$(BIN)/python -m tests.processes.storm_nodes
	$(BIN)/python -m tests.processes.storm_nodes --store mariadb

faults: $(DEV) ## the fault table on real processes, round after round, into docs/results; FAULTS='disk kill' chooses
	@$(BIN)/python -m tests.provision
	$(BIN)/python -m tests.faults $(FAULTS)

fuzz: $(DEV) ## 100,000 hostile inputs to each parser, each protocol and the API; FUZZ_INPUTS, FUZZ_SEED
	$(BIN)/python -m tests.fuzz $(or $(FUZZ_INPUTS),100000) $(or $(FUZZ_SEED),1)

growth: $(DEV) ## how the rate grows from one node to three on one PostgreSQL: a table; GROWTH_RATE for each node
	@$(BIN)/python -m tests.provision
	$(BIN)/python -m tests.processes.soak_nodes --store postgres --growth 1 2 3 --rate $(or $(GROWTH_RATE),1000)

docs: $(DEV) ## rewrite the generated pages, check all links, build the site into build/site
	$(BIN)/python -m tests.generate_docs
	$(PYTEST) -q -n 0 tests/test_docs.py -m "not slow"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site is in build/site. To read it with search: python3 -m http.server -d build/site" >&2

pictures: $(DEV) $(PAGE) ## take the pictures in docs/images anew
	@$(BIN)/python -m tests.provision
	$(BIN)/python -m tests.web.pictures

# The tests must try what the container has: its versions are those of development.
lock: ## resolve the dependencies anew into requirements/*.lock (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --all-extras --group dev pyproject.toml -o requirements/dev.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --constraint requirements/dev.lock --group build pyproject.toml -o requirements/run.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --constraint requirements/dev.lock --extra postgres --extra mysql --extra kubernetes --group build pyproject.toml -o requirements/container.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --constraint requirements/dev.lock --group bench -o requirements/bench.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --group web -o requirements/web.lock

release: $(DEV) ## build sdist and wheel, try both in a clean environment, print what to upload
	$(BIN)/python -m tests.release

clean: ## remove the environment and all caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist web/node_modules $(dir $(PAGE))

$(BIN)/python:
	@echo "creating $(VENV) ..." >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Evertick needs Python 3.11 or newer; $$($(PYTHON) --version) was found. Try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(RUN): $(BIN)/python requirements/run.lock pyproject.toml
	@echo "installing the locked packages ..." >&2
	@$(PIP) install --require-hashes -r requirements/run.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): $(RUN) requirements/dev.lock
	@echo "installing the locked packages for development ..." >&2
	@$(PIP) install --require-hashes -r requirements/dev.lock
	@touch $@

$(BENCH): $(DEV) requirements/bench.lock
	@echo "installing the peers and what draws plots ..." >&2
	@$(PIP) install --require-hashes -r requirements/bench.lock
	@touch $@

$(PAGE): $(PARTS) requirements/web.lock | $(BIN)/python
	@PYTHON=$(abspath $(BIN)/python) web/build
	@touch $@

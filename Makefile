# Everything a checkout needs, from nothing but Python 3.11+, git and make. `make help` lists it.
#
# Paths here are relative, so a checkout may live anywhere, in a folder with spaces too.

PYTHON ?= python3
PYTHONS ?= 3.11 3.12 3.13
WORKERS ?= 3
PYTEST_ARGS ?=
LOCK_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
CHECKED := $(wildcard src tests tools)
UV := uv==0.13.7

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

.PHONY: help
help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  PYTHON=python3.13       the interpreter the virtual environment is made of'
	@echo '  PYTHONS="3.11 3.13"     the versions that make test-pythons looks for'
	@echo '  WORKERS=3               processes that run tests side by side'
	@echo '  PYTEST_ARGS="-k prune"  more arguments for pytest'
	@echo '  LOCK_ARGS=--upgrade     more arguments for make lock'

# --- Use ------------------------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.installed  ## Install Holdfast into .venv and show what it does
	@$(BIN)/holdfast demo

# --- Check ----------------------------------------------------------------------------------------

.PHONY: test
test: dev  ## Check everything: lint, types, import contracts, tests
	@$(MAKE) --no-print-directory -j 2 lint types contracts compiled
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not deep" $(PYTEST_ARGS)

# Each worker imports every test. They start together, so in a new checkout each would compile all of
# them; and in every run where the environment tells Python to keep nothing. A failure here is
# told by the tests.
.PHONY: compiled
compiled: dev
	@$(BIN)/python -m pytest --collect-only -qq -p no:cacheprovider >/dev/null 2>&1 || :

test test-deep compiled: export PYTHONDONTWRITEBYTECODE :=

# Each version has a virtual environment of its own, which the next run uses again.
.PHONY: test-pythons
test-pythons:  ## Run `make test` on every supported Python that is installed here
	@tested=; missing=; \
	for version in $(PYTHONS); do \
	  python=$$(tools/find_python.sh $$version) || { missing="$$missing $$version"; continue; }; \
	  echo "Testing on Python $$version ($$python)"; \
	  $(MAKE) --no-print-directory test VENV=.venv-$$version PYTHON="$$python" || exit 1; \
	  tested="$$tested $$version"; \
	done; \
	echo "Tested on Python:$${tested:- none}."; \
	[ -z "$$missing" ] || echo "Not found, so not tested:$$missing." >&2; \
	[ -n "$$tested" ]

# pytest exits 5 when it selected no test: nothing deep yet is no failure.
.PHONY: test-deep
test-deep: dev  ## Run the long tests that `make test` leaves out
	HOLDFAST_EXAMPLES=1000 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m deep \
	  -o faulthandler_timeout=3600 $(PYTEST_ARGS) || [ $$? -eq 5 ]
	HOLDFAST_EXAMPLES=1000 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal \
	  -m "not deep" tests/property tests/cli \
	  -o faulthandler_timeout=3600 $(PYTEST_ARGS) || [ $$? -eq 5 ]

# Each command in an interpreter of its own, as people run it.
test-deep: export HOLDFAST_NEW_PROCESSES := 1

# Needs a Chromium of the system, or of HOLDFAST_BROWSER.
.PHONY: test-web
test-web: dev  ## Run every test of the page, in a real browser too
	@$(BIN)/python -m tests.web.browser || { echo; \
	  echo '*** NO BROWSER: the page was not tested in one. Install Chromium (Debian, Ubuntu:' >&2; \
	  echo '*** apt install chromium), or name one in HOLDFAST_BROWSER.' >&2; exit 1; }
	$(BIN)/python -m pytest -n $(WORKERS) tests/web $(PYTEST_ARGS)

.PHONY: screenshots
screenshots: dev  ## Take the pictures of the page in the documentation
	@$(BIN)/python -m tools.screenshots

# Ratios side by side in one run. It judges nothing, so it is no part of `make test`.
.PHONY: bench
bench: $(VENV)/.installed  ## Measure it beside its baselines; writes docs/benchmarks.md
	@$(BIN)/python bench/report.py

.PHONY: bench-quick
bench-quick: $(VENV)/.installed  ## See in two minutes that the benchmarks work; writes nothing
	@$(BIN)/python bench/report.py --quick

.PHONY: lint
lint: dev  ## Check style and format
	$(BIN)/python -m ruff check --quiet
	$(BIN)/python -m ruff format --check --quiet || { echo 'Run "make format".' >&2; exit 1; }

.PHONY: types
types: dev  ## Check types
	$(BIN)/python -m mypy --no-error-summary $(CHECKED)
	$(BIN)/python -m tools.documented_code
	cd bench && ../$(BIN)/python -m mypy --no-error-summary *.py workers

.PHONY: contracts
contracts: dev  ## Check that imports point down only
	$(BIN)/lint-imports --no-logo --cache-dir $(VENV)/.import_linter_cache

# --- Change ---------------------------------------------------------------------------------------

.PHONY: format
format: dev  ## Format the code and apply safe lint fixes
	$(BIN)/python -m ruff check --fix-only --quiet
	$(BIN)/python -m ruff format --quiet

.PHONY: docs
docs: dev  ## Write what comes from code: reference, man page, output of commands
	$(BIN)/python -m tools.cli_reference
	$(BIN)/python -m tools.config_reference
	$(BIN)/python -m tools.api_reference
	$(BIN)/python -m tools.man_page
	$(BIN)/python -m tools.console_blocks

# The site has an environment of its own: nothing of it is needed to work on Holdfast.
SITE := .venv-site

.PHONY: site
site: $(SITE)/.installed  ## Build the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -m mkdocs build --strict
	@echo 'Built build/site/index.html'

$(SITE)/.installed: requirements/site.txt
	@echo 'Installing what builds the site'
	@rm -rf $(SITE)
	@"$(PYTHON)" -m venv $(SITE)
	@$(SITE)/bin/python -m pip install --disable-pip-version-check --no-input --require-hashes \
	  -r requirements/site.txt >$(SITE)/log 2>&1 </dev/null || { cat $(SITE)/log >&2; exit 1; }
	@touch $@

# --- Release --------------------------------------------------------------------------------------

.PHONY: release-check
release-check: dev  ## Build the release, check it, and run it on every Python found here
	@found=; for version in $(PYTHONS); do \
	  python=$$(tools/find_python.sh $$version) && found="$$found $$python"; \
	done; \
	[ -n "$$found" ] || { echo 'None of Python $(PYTHONS) is here.' >&2; exit 1; }; \
	$(BIN)/python -m tools.release_check $$found

# Pins already in requirements/ stay unless LOCK_ARGS says --upgrade or --upgrade-package NAME.
# Releases younger than two weeks wait: most bad ones are found and withdrawn by then.
COMPILE = $(VENV)/uv/bin/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	--python $(BIN)/python --no-python-downloads --exclude-newer '2 weeks' \
	--custom-compile-command 'make lock' $(LOCK_ARGS)

# Of claude-agent-sdk only the source: its wheels hold all of Claude Code, 160 MB.
.PHONY: lock
lock: $(VENV)/.made  ## Pin the dependencies in pyproject.toml into requirements/
	@$(call quietly,$(BIN)/python -m pip install --upgrade --target $(VENV)/uv $(UV))
	$(COMPILE) pyproject.toml -o requirements/run.txt
	$(COMPILE) --group build -o requirements/build.txt
	$(COMPILE) pyproject.toml --group dev --no-binary claude-agent-sdk --emit-build-options \
	  -c requirements/run.txt -c requirements/build.txt -o requirements/dev.txt
	$(COMPILE) --group site -o requirements/site.txt

.PHONY: clean
clean:  ## Remove everything that was made, .venv too
	rm -rf $(VENV) .venv-* build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find $(CHECKED) -name __pycache__ -type d -prune -exec rm -rf {} +

# --- The virtual environment ----------------------------------------------------------------------
#
# Each step leaves a stamp in .venv and is skipped while the stamp is newer than what it came from.
# A changed lock file makes a new environment, so that it holds what is locked and nothing else.

.PHONY: dev
dev: $(VENV)/.dev $(VENV)/.installed

# Silent when it works; everything the command said when it does not.
quietly = { $(1); } >$(VENV)/log 2>&1 </dev/null || { cat $(VENV)/log >&2; exit 1; }

PIP_INSTALL = $(BIN)/python -m pip install --disable-pip-version-check --no-input

# The build tools are the locked ones too, hence no isolation; pip checks that they suffice.
LOCKED_BUILD := --no-build-isolation --check-build-dependencies

# Sound: finished, made in this place (a copied one still points at the original's source), its
# interpreter alive, and of the PYTHON asked for, if one was.
IDENTITY := import pip, sys; print(sys.base_prefix, sys.version)
BASE := import sys; print(sys.base_prefix, sys.version)
ifeq ($(origin PYTHON),file)
  SOUND = $(BIN)/python -c '$(IDENTITY)'
else
  SOUND = [ "$$($(BIN)/python -c '$(IDENTITY)')" = "$$("$(PYTHON)" -c '$(BASE)')" ]
endif
ifneq ($(shell { [ "$$(cat $(VENV)/.made)" = "$$(pwd -P)" ] && $(SOUND); } >/dev/null 2>&1 && echo yes),yes)
.PHONY: $(VENV)/.made
endif

$(VENV)/.made: requirements/run.txt requirements/build.txt requirements/dev.txt
	@rm -rf $(VENV)
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo 'Holdfast needs Python 3.11 or later, and "$(PYTHON)" is not here.' >&2; \
	  echo 'Install it, or name another: make PYTHON=/path/to/python3' >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Holdfast needs Python 3.11 or later; $(PYTHON) is $$("$(PYTHON)" -V 2>&1)." >&2; \
	  echo 'Name a later one: make PYTHON=python3.13' >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo 'Holdfast needs the venv module, and $(PYTHON) comes without it.' >&2; \
	  echo 'Install it (Debian, Ubuntu: apt install python3-venv) and try again.' >&2; exit 1; }
	@echo "Making $(VENV) with $$("$(PYTHON)" -V)"
	@mkdir $(VENV)
	@$(call quietly,"$(PYTHON)" -m venv $(VENV))
	@pwd -P >$@

$(VENV)/.runtime: $(VENV)/.made
	@echo 'Installing what Holdfast runs on'
	@$(call quietly,$(PIP_INSTALL) --require-hashes -r requirements/run.txt -r requirements/build.txt)
	@touch $@

$(VENV)/.installed: pyproject.toml src/holdfast/__init__.py $(VENV)/.runtime
	@echo 'Installing Holdfast'
	@$(call quietly,$(PIP_INSTALL) --no-deps $(LOCKED_BUILD) -e .)
	@touch $@

# Most of what comes with the tools is never imported, so it is compiled when it is.
$(VENV)/.dev: $(VENV)/.runtime
	@echo 'Installing the development tools'
	@$(call quietly,$(PIP_INSTALL) --require-hashes --no-compile $(LOCKED_BUILD) -r requirements/dev.txt)
	@touch $@

# labkit: set-up and gates. `make setup` needs only the Debian packages that PROBLEM below looks for.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

ifndef PYTHON
PYTHON := $(shell /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
            && echo /usr/bin/python3 || echo python3)
endif
VENV := .venv
BIN := $(VENV)/bin
NATIVE := pyproject.toml $(wildcard labkit/native/*.c labkit/native/*.cpp labkit/native/*.h labkit/native/*.cmake labkit/native/CMakeLists.txt)
FORMATTED := $(wildcard labkit/native/*.c labkit/native/*.cpp labkit/native/*.h tests/*/*.cpp tests/*/*.h tests/*/*.c)
EVERYTHING = $(PYTEST) --durations=10 $(NBVAL) --ignore-glob='tests/*.ipynb' tests $(wildcard notebooks)
QUICK := 00_start 10_ring_and_coalescing 11_published_tables 20_fast_path
PYTEST := $(BIN)/python -m pytest
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout=60 --nbval-sanitize-with tests/nbval_sanitize.cfg

# One line about what stands in the way of a build, or nothing. Asked only when something is to be built.
PROBLEM = $(shell missing=; \
	command -v git >/dev/null || missing+=" git"; \
	command -v g++ >/dev/null || missing+=" g++"; \
	command -v $(PYTHON) >/dev/null || missing+=" python3"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing+=" python3-venv"; \
	$(PYTHON) -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null \
		|| missing+=" python3-dev"; \
	if [ -n "$$missing" ]; then echo "labkit needs$$missing: sudo apt-get install -y$$missing"; \
	elif ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "$(PYTHON) is older than Python 3.11: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; \
	elif ! [ -w . ]; then \
		echo "$(CURDIR) cannot be written by $$(id -un): git clone it into a folder of your own, run make there"; fi)

# Set-up writes nothing outside the checkout but uv's cache; where that cannot be written, not even that.
UV_CACHE = $(shell folder="$${UV_CACHE_DIR:-$${XDG_CACHE_HOME:-$${HOME:-/dev/null}/.cache}/uv}"; \
	mkdir -p "$$folder" 2>/dev/null && [ -w "$$folder" ] && echo "$$folder" || echo "$(CURDIR)/build/uv-cache")
# Where the system has a trust store, uv uses it as pip does: a proxy of one's own is known there.
UV_CERTS := $(if $(wildcard /etc/ssl/certs/ca-certificates.crt),UV_SYSTEM_CERTS=1)
UV = UV_CACHE_DIR="$(UV_CACHE)" $(UV_CERTS) $(BIN)/uv

# A .venv holds its own address and that of the interpreter that made it: in a checkout that was moved, or
# where that interpreter is gone, it is made anew.
ifneq ($(wildcard $(VENV)/.deps),)
ifneq ($(shell $(BIN)/python -I -c '' 2>/dev/null && cat $(VENV)/.deps),$(CURDIR))
.PHONY: $(VENV)/.deps
endif
endif

# An editable install knows each module by its file: it is renewed when one comes or goes.
FILES := $(shell find labkit -name '*.py' -o -path 'labkit/native/*' | sort | cksum)
ifneq ($(FILES),$(shell cat $(VENV)/.built 2>/dev/null))
.PHONY: $(VENV)/.built
endif

.PHONY: help setup run lab check test soak bench lock system-packages

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: $(VENV)/.built  ## .venv from the hashed lock, native build included

# uv itself comes from the lock, with its hashes, through the new .venv's pip. The stamp is written last, so a
# set-up that was interrupted starts over.
$(VENV)/.deps: requirements.lock
	$(if $(PROBLEM),$(error $(PROBLEM)))
	@echo "labkit: setting up .venv with $(PYTHON)"
	@rm -rf build/native
	@$(PYTHON) -I -m venv --clear $(VENV)
	@awk '/^uv==/ {p=1} p {print} p && !/\\$$/ {exit}' requirements.lock > $(VENV)/uv.lock
	@$(BIN)/python -I -m pip install -q --no-cache-dir --disable-pip-version-check --require-hashes --no-deps \
		-r $(VENV)/uv.lock
	@$(UV) pip sync -q --python $(BIN)/python --require-hashes --compile-bytecode requirements.lock
	@echo '$(CURDIR)' > $@

$(VENV)/.built: $(VENV)/.deps $(NATIVE)
	$(if $(PROBLEM),$(error $(PROBLEM)))
	@echo "labkit: building the native engines"
	@$(UV) pip install -q --python $(BIN)/python --no-deps --no-build-isolation --reinstall-package labkit -e .
	@$(BIN)/python -I -m compileall -qq labkit || \
		echo "labkit: no byte code could be written below labkit/: each start is slower, nothing else" >&2
	@echo '$(FILES)' > $@

run: setup  ## the quick tour: four notebooks, one offline report in out/report.html
	$(BIN)/labkit report $(QUICK:%=notebooks/%.ipynb) --param quick=true
	@echo "open $(CURDIR)/out/report.html"

lab: setup  ## JupyterLab on a copy of the notebooks
	$(BIN)/labkit lab

check: setup  ## lint, types, architecture and unit tests; under a minute
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .
	@$(BIN)/clang-format --dry-run -Werror $(FORMATTED)
	$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(PYTEST) -q $(wildcard tests/arch tests/unit)

# The notebooks that tests keep among their inputs may fail on purpose: nbval runs those of notebooks/ only.
test: setup  ## every behaviour once, the notebooks included; some 17 minutes
ifeq ($(CI),true)
	@$(MAKE) --no-print-directory system-packages
else
	@absent="$(ABSENT)"; [ -z "$$absent" ] || \
		echo "labkit: tests that need $$absent are skipped; to run them: make system-packages"
endif
	@mkdir -p build; trap 'kill $$guests 2>/dev/null || true' EXIT; \
	$(EVERYTHING) -m "vm and not soak" >build/guests.log 2>&1 & guests=$$!; \
	echo "labkit: guests, whose clock counts their own instructions, are tested beside what measures nothing"; \
	failed=0; $(EVERYTHING) -m "not vm and not network and not soak" || failed=$$?; \
	wait $$guests || failed=$$?; guests=; cat build/guests.log; \
	$(EVERYTHING) -m "network and not vm and not soak" || failed=$$?; exit $$failed

soak: setup  ## the full repeat counts of what `test` tries once
	$(PYTEST) -m soak --timeout=3600 tests

bench: setup  ## measured ratios against their goals, into out/bench.json
	$(BIN)/python tests/bench/run.py

lock: setup  ## renew requirements.lock
	$(UV) pip compile -q --universal --python-version 3.11 pyproject.toml --group dev --upgrade \
		--generate-hashes --no-emit-index-url --no-header --no-annotate -o requirements.lock

# Debian packages that only tests want.
ABSENT = $(strip $(shell sed 's/[[:space:]]*\#.*//; /^$$/d' tests/system-packages | while read -r package; do \
	[ "$$(dpkg-query -W -f '$${db:Status-Status}' "$$package" 2>/dev/null)" = installed ] || echo "$$package"; done))
AS_ROOT = $(shell [ "$$(id -u)" = 0 ] || echo sudo)

system-packages:  ## install the Debian packages that tests want (tests/system-packages)
	@absent="$(ABSENT)"; [ -z "$$absent" ] || { $(AS_ROOT) apt-get -q update && \
		$(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$absent; }

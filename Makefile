# labkit: set-up and gates. `make run` needs nothing but the packages named under `prerequisites`.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= $(shell /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
            && echo /usr/bin/python3 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
NATIVE := pyproject.toml $(wildcard labkit/native/*.cpp labkit/native/*.h labkit/native/*.cmake labkit/native/CMakeLists.txt)

.PHONY: help prerequisites setup run lab check test soak bench lock

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# One line a missing package, before anything is made.
prerequisites:
	@missing=(); \
	command -v git >/dev/null || missing+=(git); \
	command -v g++ >/dev/null || missing+=(g++); \
	command -v $(PYTHON) >/dev/null || missing+=(python3); \
	$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv); \
	$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' \
		2>/dev/null || missing+=(python3-dev); \
	if (( $${#missing[@]} )); then \
		echo "labkit needs $${missing[*]}; install with: sudo apt-get install -y $${missing[*]}" >&2; exit 1; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "labkit needs Python 3.11 or newer; $(PYTHON) is older: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; }

setup: $(VENV)/.built  ## .venv from the hashed lock, native build included

# uv itself comes from the lock, with its hashes, through the venv's pip.
$(VENV)/.deps: requirements.lock | prerequisites
	$(PYTHON) -m venv $(VENV)
	awk '/^uv==/ {p=1} p {print} p && !/\\$$/ {exit}' requirements.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r $(VENV)/uv.lock
	$(BIN)/uv pip sync -q --python $(BIN)/python --require-hashes --compile-bytecode requirements.lock
	@touch $@

$(VENV)/.built: $(VENV)/.deps $(NATIVE)
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation --reinstall-package labkit -e .
	$(BIN)/python -m compileall -q labkit
	@touch $@

check: setup  ## lint, types, architecture and unit tests; under a minute
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .
	$(BIN)/clang-format --dry-run -Werror $(filter %.cpp %.h,$(NATIVE))
	$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/arch tests/unit

lock: setup  ## renew requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 pyproject.toml --group dev --upgrade \
		--generate-hashes --no-emit-index-url --no-header --no-annotate -o requirements.lock

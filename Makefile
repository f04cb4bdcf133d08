# Slipstream. `make help` lists the targets.
.DEFAULT_GOAL := help
.PHONY: help setup demo berlin test test-long bench lint lock audit matrix sbom release docs clean
SHELL := /bin/bash

BIN := .venv/bin
READY := .venv/.ready

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## install everything into .venv (Java too, on Debian as root)

WEB := $(shell find web -name node_modules -prune -o -type f -print)

$(READY): requirements.lock pyproject.toml scripts/setup.sh scripts/console.sh $(WEB)
	@scripts/setup.sh
	@touch $@

demo: $(READY) ## simulate a few minutes of heavy traffic with an accident, draw it, toll it, check the answers
	@scripts/demo.sh

lint: $(READY) ## check format, style, types and the import rules
	$(BIN)/ruff format --check src tests scripts
	$(BIN)/ruff check src tests scripts
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@scripts/check_page.sh

berlin: $(READY) ## toll a morning of GPS positions in Berlin: the ring by kilometre, the centre by visit
	$(BIN)/python examples/berlin/berlin.py

test: lint ## lint and all quick tests, in under 15 minutes on 2 cores
	$(BIN)/pytest --numprocesses 2 --dist loadfile

test-long: $(READY) ## the long tests: full runs, the traffic's character, new random examples
	SLIPSTREAM_EXAMPLES=new $(BIN)/pytest -m 'long or (hypothesis and not bench)'

bench: $(READY) ## measure speed and memory, and print the figures with the machine
	$(BIN)/pytest -m bench -s

lock: $(READY) ## renew requirements.lock from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --custom-compile-command 'make lock' --group dev --all-extras pyproject.toml --output-file requirements.lock

audit: $(READY) ## check all locked packages for known vulnerabilities (needs the network)
	@scripts/audit.sh

matrix: $(READY) ## the smoke suite with every supported PySpark and Python that is here
	@scripts/matrix.sh

sbom: $(READY) ## list all parts as CycloneDX, in build/sbom
	@scripts/sbom.sh

release: $(READY) ## check, test, build and tag VERSION; publishes nothing
	@scripts/release.sh $(VERSION)

docs: $(READY) ## write docs/reference from the code, and the site into build/site
	$(BIN)/python scripts/write_reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean
	@echo "build/site/index.html"

clean: ## remove everything that the targets created
	rm -rf .venv build dist runs web/node_modules src/slipstream/_console/static .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

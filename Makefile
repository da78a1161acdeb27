# One target for each thing a person or CI does; CI and the guide call the same ones.
.DEFAULT_GOAL := help
.PHONY: help setup up preview pulumi test chaos check ci bench clean format

PYTHON ?= python3
BENCH_PYTHON ?= $(or $(wildcard /usr/bin/python$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')),$(PYTHON))
# Compiling the sources anew in every process would cost the tests a quarter of their time.
unexport PYTHONDONTWRITEBYTECODE
# uv from PATH, or from the registry into the project's own state folder.
UV := $(shell command -v uv 2>/dev/null || echo .holdfast/uv/bin/uv)
RUN := $(UV) run --frozen --no-sync

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.holdfast/uv/bin/uv:
	@echo "Installing uv (once, into .holdfast/uv)"
	@$(PYTHON) -m venv .holdfast/uv
	@.holdfast/uv/bin/python -m pip install --quiet --disable-pip-version-check uv

.venv/synced: uv.lock pyproject.toml $(if $(findstring .holdfast,$(UV)),.holdfast/uv/bin/uv)
	@echo "Installing the locked dependencies"
	@$(UV) sync --frozen --quiet --compile-bytecode
	@touch $@

setup: .venv/synced ## install what the lock file names

up: setup $(if $(filter pulumi,$(ENGINE)),pulumi) ## run everything here, with a first job (ONCE=1: stop after it; PORT=n; ENGINE=pulumi: the real engine)
	@exec $(RUN) holdfast up $(if $(ONCE),--once) $(if $(PORT),--port $(PORT)) $(if $(ENGINE),--engine $(ENGINE))

preview: setup pulumi ## what a first deployment creates, offline, and the policies' verdict (STACK=dev)
	@$(RUN) holdfast preview $(or $(STACK),dev)

pulumi: setup ## the pulumi command: the cached or installed one, or built once from its Go module; last line: its path
	@$(RUN) python -m sandbox.engine.cli.build

test: setup ## every test
	@$(RUN) pytest tests -n 4 --dist worksteal

chaos: setup ## 2,000 messages while much goes wrong, and nothing may be lost (SECONDS=60: bounded; SEED=n: again; MESSAGES=n)
	@$(RUN) python -m tests.chaos.run $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(MESSAGES),--messages $(MESSAGES))

check: setup ## format, lint, types, imports, sizes, workflows
	@$(RUN) ruff format --check .
	@$(RUN) ruff check .
	@$(RUN) mypy
	@$(RUN) lint-imports
	@$(RUN) python checks/sizes.py
	@checks/workflows

ci: export HOLDFAST_REQUIRE_ALL = 1
ci: check pulumi test ## check and test, with nothing skipped, then a bounded chaos
	@$(MAKE) --no-print-directory chaos SECONDS=60

# In an environment of its own: the tests never see the peers. A distribution's interpreter is built with optimisations,
# as that of the image is; one that was built from source mostly is not, and Python then looks a quarter slower.
bench: export UV_PROJECT_ENVIRONMENT = .holdfast/bench
bench: export UV_PYTHON = $(BENCH_PYTHON)
bench: $(if $(findstring .holdfast,$(UV)),.holdfast/uv/bin/uv) ## measurements, as ratios against peers in one run (QUICK=1: a smoke run)
	@$(UV) sync --frozen --quiet --compile-bytecode --group bench
	@$(RUN) python bench/worker.py $(if $(QUICK),--quick)
	@$(RUN) python bench/executor.py $(if $(QUICK),--quick)
	@$(RUN) python bench/end_to_end.py $(if $(QUICK),--rounds 1 --seconds 1)
	@$(RUN) python bench/memory.py $(if $(QUICK),--requests 2000)
	@$(RUN) python bench/deployment.py $(if $(QUICK),--rounds 1)

format: setup ## rewrite in the project's format
	@$(RUN) ruff format .
	@$(RUN) ruff check --fix .

clean: ## remove local state and the environment
	@rm -rf .holdfast .venv

# Every target creates .venv on first use; the machine needs only python3 (3.11 or later) and make.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

.PHONY: setup test test-all lint demo bench faults clean

setup: $(VENV)/.ready

# torch comes first and by its exact pin: a range would make pip fetch a newer build with gigabytes of extras.
$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "bytenet needs Python 3.11 or later; try: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(RUN)/pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(RUN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

test: lint
	$(RUN)/pytest -n auto -m "not slow"

test-all: lint
	$(RUN)/pytest -n auto --hypothesis-profile=thorough

lint: setup
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

demo: setup
	$(RUN)/python examples/translating.py
	$(RUN)/bytenet generate --prompt "The city of " --temperature 0.7 --seed 2 --length 300

bench: setup
	$(RUN)/python benchmarks/training_step.py
	$(RUN)/python benchmarks/decoding/gpu_step.py
	$(RUN)/python benchmarks/decoding/cost.py lengths --without-peers --quick

faults: setup
	$(RUN)/python tests/faults.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

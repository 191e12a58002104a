# make demo    a whole pipeline on generated videos, no download, no GPU
# make test    the tests (SLOW=1: the slow ones as well)
# make lint    style and types
# make bench   what is measured, on this machine
PYTHON ?= python3
VENV   ?= .venv
SLOW   ?= 0

BIN       := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Two workers with one thread each: on small machines faster than one worker with two threads.
WORKERS   ?= 2
MARKS     := $(if $(filter 1,$(SLOW)),not gpu,not slow and not gpu)

.PHONY: demo test lint bench clean

demo: $(INSTALLED)
	$(BIN)/videopipe run demo

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "$(MARKS)"

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED)
	for tool in tools/bench_*.py; do echo "== $$tool"; $(BIN)/python $$tool || exit 1; done

# Redone whenever what is to be installed changes.
$(INSTALLED): setup.cfg pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) runs

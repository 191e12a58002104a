# make demo    a whole pipeline on generated videos, no download, no GPU
# make test    the tests (SLOW=1: the slow ones as well)
# make lint    style and types
# make bench   what is measured, on this machine, in one table (under ten minutes)
#
# All of them create .venv and install into it first, and again when setup.cfg changes.
# Another interpreter: make test PYTHON=python3.12
PYTHON ?= python3
VENV   ?= .venv
RUNS   ?= runs
SLOW   ?= 0
# Two workers with one thread each: on small machines faster than one worker with two threads.
WORKERS ?= 2

BIN       := $(VENV)/bin
INSTALLED := $(VENV)/.installed
MARKS     := $(if $(filter 1,$(SLOW)),not gpu,not slow and not gpu)

.PHONY: demo test lint bench clean

demo: $(INSTALLED)
	$(BIN)/videopipe run demo --runs $(RUNS)

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "$(MARKS)"

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Your own videos: make bench VIDEOS=folder. On a machine that does nothing else.
bench: $(INSTALLED)
	$(BIN)/python tools/bench.py $(if $(VIDEOS),--videos "$(VIDEOS)")

$(INSTALLED): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "videopipe needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) $(RUNS)

# make demo    a whole pipeline on generated videos, no download, no GPU
# make test    the tests (SLOW=1: the slow ones as well)
# make lint    style and types
# make processors   the numerical tests under other instruction sets and numbers of threads
# make mutants  wrong changes to the code that no test detects (COUNT, MINUTES, SEED, RECORD=file,
#               LINES=file of tools/mutant_lines.py, BUDGET=processor seconds for each)
# make docs    the documentation as a site: build/site/index.html
# make bench   all benchmarks in one table (under ten minutes)
#
# All of them create .venv and install into it first, and again when setup.cfg changes: `demo` what
# runs the program, the others also the developer's tools. `uv` is used where it is installed.
# Another interpreter: make test PYTHON=python3.12
PYTHON ?= python3
VENV   ?= .venv
RUNS   ?= runs
SLOW   ?= 0
# Two workers with one thread each: on small machines faster than one worker with two threads.
WORKERS ?= 2

BIN       := $(VENV)/bin
RUNTIME   := $(VENV)/.runtime
INSTALLED := $(VENV)/.installed
UV        := $(shell command -v uv 2> /dev/null)
MARKS     := $(if $(filter 1,$(SLOW)),not gpu,not slow and not gpu)

.PHONY: demo test lint processors mutants docs bench clean

demo: $(RUNTIME)
	$(BIN)/videopipe run demo --progress stages --runs $(RUNS)

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "$(MARKS)"

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Rounding depends on the instruction set. These variables limit torch, oneDNN, MKL and numba to
# those of other processors; results must agree within the tolerances of the tests on all of them.
NUMERICAL := tests/s4nd tests/pretrained_2d/networks tests/pretrained_2d/checkpoints tests/videopipe/inflation tests/videopipe/scoring
SSE4 := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2
AVX2 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2
PYTEST_NUMERICAL = $(BIN)/python -m pytest -q -m "not slow and not gpu" $(NUMERICAL)
processors: $(INSTALLED)
	$(SSE4) NUMBA_CPU_NAME=generic OMP_NUM_THREADS=1 $(PYTEST_NUMERICAL) -n $(WORKERS)
	$(AVX2) NUMBA_CPU_NAME=generic OMP_NUM_THREADS=2 $(PYTEST_NUMERICAL)
	OMP_NUM_THREADS=4 OMP_WAIT_POLICY=passive $(PYTEST_NUMERICAL)

COUNT ?= 40
MINUTES ?= 20
SEED ?= 0
BUDGET ?= 600
# With RECORD=mutants.jsonl a stopped run resumes.
mutants: $(INSTALLED)
	$(BIN)/python tools/mutants.py --count $(COUNT) --minutes $(MINUTES) --seed $(SEED) \
		--workers $(WORKERS) --seconds $(BUDGET) $(if $(LINES),--lines $(LINES)) \
		$(if $(RECORD),--out $(RECORD))

# Your own videos: make bench VIDEOS=folder. Into docs/performance.md: make bench WRITE=1. Run it on
# an idle machine.
bench: $(INSTALLED)
	$(BIN)/python tools/bench.py $(if $(VIDEOS),--videos "$(VIDEOS)") $(if $(WRITE),--write)

docs: $(INSTALLED)
	$(BIN)/python tools/make_site.py

# PYTHONWARNINGS: setuptools warns that an editable install needs its folder to stay where it is.
ifdef UV
CREATE  = $(UV) venv --quiet --python $(PYTHON) $(VENV)
INSTALL = VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet
else
CREATE  = $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --upgrade pip
INSTALL = PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "videopipe needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	@$(CREATE)

$(RUNTIME): setup.cfg pyproject.toml | $(BIN)/python
	@echo "Installing videopipe into $(VENV). PyTorch is the largest download; this takes a few minutes."
	@$(INSTALL) --editable .
	@touch $@

$(INSTALLED): setup.cfg pyproject.toml | $(BIN)/python
	@echo "Installing videopipe and the developer's tools into $(VENV). This takes a few minutes."
	@$(INSTALL) --editable ".[dev]"
	@touch $@ $(RUNTIME)

clean:
	rm -rf $(VENV) $(RUNS) build

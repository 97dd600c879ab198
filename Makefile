# Every target first makes .venv from the lock when it is missing or older than the lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
# one thread per process: the workers share the cores, and runs are keyed by their thread count
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope

.PHONY: reproduce test stress lab lint format docs lock help

help:
	@echo "make reproduce   compute the tables and figures, write figures/report.html"
	@echo "                 (PROFILE=mini for CIFAR, ITEMS='...' for some of them)"
	@echo "make test        lint, types, unit tests, every notebook"
	@echo "make stress      kills, faults, bad input and load, counted into tests/stress/last_run.csv (about 25 minutes)"
	@echo "make lab         JupyterLab on notebooks/"
	@echo "make lint        lint and types only"

reproduce: $(READY)
	$(BIN)/fedcopl-lab reproduce $(if $(PROFILE),--profile $(PROFILE)) $(if $(ITEMS),--items $(ITEMS))

# notebooks compute their runs for one seed here; the numbers they print are the committed ones of all seeds
test: lint
	$(TEST) --jaxtyping-packages=fedcopl_lab,beartype.beartype tests
	FEDCOPL_LAB_SEEDS=1 $(TEST) --nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg --nbval-cell-timeout=1800 notebooks

# the tests run a few of each; this runs all of them
stress: $(READY)
	$(BIN)/python tests/stress --out tests/stress/last_run.csv

lab: $(READY)
	$(BIN)/jupyter lab --notebook-dir=notebooks

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# the README's table of items, notebooks/README.md and the links between notebooks
docs: $(READY)
	$(BIN)/python tests/front_door/front_door.py

# needs uv, which keeps the versions that the lock names already; every platform, no index address
lock:
	uv pip compile pyproject.toml --extra dev --extra cluster --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header -o requirements.lock

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12 reproduce")'
	@echo "Setting up $(VENV) from requirements.lock (a few minutes, about 6 GB with torch)"
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $(READY)

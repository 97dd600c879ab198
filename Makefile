# Every target first makes .venv from the lock when it is missing or older than the lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
# one thread per process: the workers share the cores, and runs are keyed by their thread count
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope

.PHONY: reproduce test stress lab lint format docs lock clean help

help:
	@echo "make reproduce   compute the tables and figures, write figures/report.html"
	@echo "                 (PROFILE=mini for CIFAR, ITEMS='...' for some of them)"
	@echo "make test        lint, types, unit tests, every notebook"
	@echo "make stress      kills, faults, bad input and load, counted into tests/stress/last_run.csv (about 25 minutes)"
	@echo "make lab         JupyterLab on notebooks/"
	@echo "make lint        lint and types only"
	@echo "make clean       remove the environment, keep runs and figures"
	@echo "TORCH_INDEX=URL  with the first of them: torch without CUDA from that package index (PyTorch's CPU one)"

reproduce: $(READY)
	$(BIN)/fedcopl-lab reproduce $(if $(PROFILE),--profile $(PROFILE)) $(if $(ITEMS),--items $(ITEMS))

# notebooks compute their runs for one seed here; the numbers they print are the committed ones of all seeds
test: lint
	$(TEST) --jaxtyping-packages=fedcopl_lab,beartype.beartype tests
	FEDCOPL_LAB_SEEDS=1 $(TEST) --nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg --nbval-cell-timeout=1800 notebooks

# the tests run a few of each; this runs all of them
stress: $(READY)
	$(BIN)/python tests/stress --out tests/stress/last_run.csv

# the environment, not your runs
clean:
	rm -rf $(VENV)

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

# uv where it is on the machine, else pip; the same lock and hashes
UV := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install --progress-bar on)
# without CUDA: torch and torchvision come from TORCH_INDEX, without hashes, and what only CUDA needs is left out
CUDA_ONLY := /^(nvidia-|cuda-|triton=|torch=|torchvision=)/
FAILED = { echo "The packages could not be installed. Is there a network, and 7 GB of free disk? Then: make clean, and again."; exit 1; }

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12 reproduce")'
	@echo "Setting up $(VENV) from requirements.lock with $(if $(UV),uv,pip): $(if $(TORCH_INDEX),about 2 GB without CUDA,about 6 GB with torch); a few minutes"
	$(if $(UV),$(UV) venv --quiet --clear --python $(PYTHON) $(VENV),$(PYTHON) -m venv --clear $(VENV))
ifdef TORCH_INDEX
	awk '/^[a-z]/ {keep = !($(CUDA_ONLY))} keep' requirements.lock > $(VENV)/without-cuda.lock
	$(INSTALL) --index-url $(TORCH_INDEX) $$(awk '/^(torch|torchvision)==/ {print $$1}' requirements.lock) || $(FAILED)
	$(INSTALL) --require-hashes --no-deps -r $(VENV)/without-cuda.lock || $(FAILED)
else
	$(INSTALL) --require-hashes -r requirements.lock || $(FAILED)
endif
	$(INSTALL) --quiet --no-deps --no-build-isolation -e .
	@touch $(READY)

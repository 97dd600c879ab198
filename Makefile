# Every target first makes .venv from the lock when it is missing or older than the lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
# one thread per process: the workers share the cores, and runs are keyed by their thread count
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope

.PHONY: reproduce test test-all long flake stress lab lint format explorer tables docs lock clean help

help:
	@echo "make reproduce   compute one seed, compare, draw it with the committed numbers: figures/here/report.html"
	@echo "                 (SEEDS=all or BUDGET=30m for more, PROFILE=mini for CIFAR, ITEMS='...' for some of them)"
	@echo "make test        lint, types, unit tests, every notebook"
	@echo "make test-all    that, and the long tests (make long) of rare things; see docs/reliability.md"
	@echo "make stress      kills, faults, bad input and load, counted into tests/stress/last_run.csv (about 25 minutes)"
	@echo "make lab         JupyterLab on notebooks/"
	@echo "make docs        the site with reference, gallery and notebooks, docs/_build/html/index.html"
	@echo "make lint        lint and types only"
	@echo "make clean       remove the environment, keep runs and figures"
	@echo "TORCH_INDEX=URL  with the first of them: torch without CUDA from that package index (PyTorch's CPU one)"

reproduce: $(READY)
	$(BIN)/fedcopl-lab reproduce $(if $(PROFILE),--profile $(PROFILE)) $(if $(ITEMS),--items $(ITEMS)) \
	  $(if $(SEEDS),--seeds $(SEEDS)) $(if $(BUDGET),--budget $(BUDGET))

# shapes are checked where there are tensors; elsewhere mypy does
SHAPED := fedcopl_lab.data,fedcopl_lab.extras,fedcopl_lab.methods,fedcopl_lab.models,fedcopl_lab.steps,fedcopl_lab.widgets
CHECKED := --jaxtyping-packages=$(SHAPED),beartype.beartype
NBVAL := --nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg --nbval-cell-timeout=120

# notebooks draw the committed numbers and compute single runs; one that takes more than 30 s of a core fails
test: lint
	$(TEST) $(CHECKED) -m "not long" tests
	$(TEST) $(NBVAL) -p tests.notebook_time notebooks

test-all: test long

# kills, whole federations, Ray and Flower, trainings from the recipe: what docs/reliability.md lists
long: $(READY)
	$(TEST) $(CHECKED) -m long tests

# all tests and notebooks twice, each time in another order: none may need another one before it (SHUFFLE=3 for one more)
SHUFFLE ?= 1 2
flake: $(READY)
	for seed in $(SHUFFLE); do \
	  $(TEST) $(CHECKED) -p tests.shuffle --shuffle $$seed tests && \
	  $(TEST) $(NBVAL) -p tests.notebook_time -p tests.shuffle --shuffle $$seed notebooks || exit 1; done

# the long tests run a few of each; this runs all of them
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

# figures/explorer.html, after a change of the tiny CLIP, of SAGE's run or of the page itself
explorer: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -c "import fedcopl_lab as lab; print(lab.widgets.write_explorer('figures'))"

# whatever is written by rule: tables of the README and the docs, the opening and the links of the notebooks
tables: $(READY)
	$(BIN)/python tests/front_door/front_door.py

# the site, in docs/_build/html: warnings are errors, every link is followed
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -c docs . docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

$(VENV)/.docs: $(READY) requirements-docs.lock
	$(INSTALL) --quiet --require-hashes --no-deps -r requirements-docs.lock
	@touch $@

# needs uv, which keeps the versions that the lock names already; every platform, no index address
lock:
	uv pip compile pyproject.toml --extra dev --extra cluster --universal --python-version 3.11.4 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header -o requirements.lock
	uv pip compile --group docs -c requirements.lock --universal --python-version 3.11.4 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header -o requirements-docs.lock

# uv where it is on the machine, else pip; the same lock and hashes
UV := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --compile-bytecode --python $(BIN)/python,$(BIN)/python -m pip install --progress-bar on)
# without CUDA: torch and torchvision come from TORCH_INDEX, without hashes, and what only CUDA needs is left out
CUDA_ONLY := /^(nvidia-|cuda-|triton=|torch=|torchvision=)/
FAILED = { echo "The packages could not be installed. Is there a network, and 7 GB of free disk? Then: make clean, and again."; exit 1; }

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4) and "Python 3.11.4 or newer is needed, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12 reproduce")'
	@echo "Setting up $(VENV) from requirements.lock with $(if $(UV),uv,pip): $(if $(TORCH_INDEX),about 2 GB without CUDA,about 6 GB with torch); a few minutes"
	@$(if $(UV),$(UV) venv --quiet --clear --python $(PYTHON) $(VENV),$(PYTHON) -m venv --clear $(VENV))
ifdef TORCH_INDEX
	awk '/^[a-z]/ {keep = !($(CUDA_ONLY))} keep' requirements.lock > $(VENV)/without-cuda.lock
	@$(INSTALL) --no-deps --index-url $(TORCH_INDEX) $$(awk '/^(torch|torchvision)==/ {print $$1}' requirements.lock) || $(FAILED)
	@$(INSTALL) --require-hashes --no-deps -r $(VENV)/without-cuda.lock || $(FAILED)
else
	@$(INSTALL) --require-hashes -r requirements.lock || $(FAILED)
endif
	$(INSTALL) --quiet --no-deps --no-build-isolation -e .
	@touch $(READY)

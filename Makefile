# make demo: train the example and show what the wafer would do.  make quick: the inner loop, a minute.
# make test: everything that CI checks.  make campaign: as many random programs as the quoted errors are of.
# make campaign N=100000 SEED=1: that many damaged and hostile files for every reader, gone on with where it stopped.
# make notebooks: the course in JupyterLab; LAB="--no-browser --allow-root" hands options on.
# make docs: the documentation site in build/docs; a warning or a broken link is an error.
# make soak: half an hour of training while workers are killed; nothing may grow or be left.
# make bench: training steps beside the limits of this machine, with a history in build/bench.jsonl.
# make lowest: the quick tests on the lowest versions, on every Python at hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
# Compiled files are kept even where the environment forbids it: each script of the tests that has a process of its own
# would compile the packages anew.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
PYTHONS ?= python3.11 python3.12 python3.13 python3.14

.PHONY: demo quick test campaign lowest soak bench notebooks docs clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("lazywafer needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[progress,viz,notebooks,test]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/lazywafer run notebooks/scripts/mnist.py --data_dir build/data --model_dir build/mnist

test: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST)

quick: $(VENV)/.installed
	LT_JIT=0 $(PYTEST) -m "not slow and not process"

campaign: $(VENV)/.installed
ifdef N
	$(BIN)/python -m tests.campaign --cases $(N) --seed $(or $(SEED),1) --jobs $(JOBS)
else
	CAMPAIGN=1 $(PYTEST) -rP tests/wse_sim/cost_model/test_closed_forms.py tests/wse_sim/planner/test_prices.py \
		tests/wse_sim/pipeline/test_step_run.py tests/cstorch_compat/check/test_rewrites.py
endif

lowest:
	@for python in $(PYTHONS); do JOBS=$(JOBS) bash .ci/lowest "$$python" build/lowest || exit 1; done

soak: $(VENV)/.installed
	$(BIN)/python -m tests.faults.soak $(or $(MINUTES),30) $(or $(SEED),1)

bench: $(VENV)/.installed
	$(BIN)/python tests/bench/steps.py

notebooks: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[lab]'
	cd notebooks && $(abspath $(BIN))/jupyter lab $(LAB)

docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f docs/site/mkdocs.yml

clean:
	rm -rf $(VENV) build

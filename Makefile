# make demo: train the example and show what the wafer would do.  make test: everything that CI checks.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test bench clean

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
	$(BIN)/python -m pytest

bench: $(VENV)/.installed
	$(BIN)/python tests/bench/host_mlp.py

clean:
	rm -rf $(VENV) build

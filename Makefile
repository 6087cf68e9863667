# make demo    runs the main job on data that need no download
# make test    runs all tests
# make paper   reproduces the paper: figures and docs/paper.md
# make check   formatting, lints, types and docstrings
# make docs    writes the documentation's site to build/site, and runs its pages and examples
# make bench   compares purify() with interpret; installs what the benchmarks need
# Each installs what it needs in .venv first; a second run finds it ready.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install -q --disable-pip-version-check

.PHONY: demo test paper check docs bench clean
demo: .venv/demo
	$(BIN)/python examples/demo.py

test: .venv/ready
	$(BIN)/python -m pytest -n auto --dist loadfile

paper: .venv/ready
	$(BIN)/python -m studies

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/check_docstrings.py

docs: .venv/ready
	$(INSTALL) -e '.[docs]'
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site

# treehfd asks for xgboost, whose files would replace those of xgboost-cpu: hence without its dependencies.
bench: .venv/ready
	$(INSTALL) -e '.[benchmark]'
	$(INSTALL) --no-deps 'treehfd>=1.4'
	$(BIN)/python -m benchmarks purify

.venv/demo: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[demo]'
	touch $@

.venv/ready: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[dev]'
	touch .venv/demo $@

$(BIN)/python:
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

# make demo    runs the main job on data that need no download
# make test    runs all tests
# make paper   reproduces the paper: figures and docs/paper.md
# make check   formatting, lints, types and docstrings
# make docs    writes the documentation's site to build/site, and runs its pages and examples
# make bench   compares purify() with interpret; installs what the benchmarks need
# Each builds .venv first; a second run finds it ready.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test paper check docs bench clean
demo: .venv/ready
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
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site

# treehfd asks for xgboost, whose files would replace those of xgboost-cpu: hence without its dependencies.
bench: .venv/ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[benchmark]'
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps 'treehfd>=1.4'
	$(BIN)/python -m benchmarks purify

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

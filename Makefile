# Two commands for a clone; each makes .venv by itself and needs only python3, make and a package index.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check clean

demo: .venv/demo
	$(BIN)/clearhead demo

test: .venv/dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: .venv/dev
	scripts/check

.venv/demo: pyproject.toml constraints.txt | .venv/made
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[metrics]"
	@touch $@

.venv/dev: pyproject.toml constraints.txt | .venv/made
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

.venv/made:
	$(PYTHON) -m venv .venv
	@touch $@

clean:
	rm -rf .venv runs site .pytest_cache .mypy_cache .ruff_cache .hypothesis

# make bench: times every kernel and compares with this GPU's baseline.   make test: is everything right?
# make quick: lint, types and a choice of tests, in less than a minute, while you work.   make check: all of lint and types.
# make wheel: builds the distribution and lets a repository of its own use it; part of make test.
# The first call sets up .venv; ARGS="..." goes to pytest.
# make bench COMPARE="--against main": side by side with another revision.
# make mutate: makes mistakes in the kernels and says which of them no test notices; some minutes on all cores.
PYTHON ?= python3
COMPARE ?= --benchmark-compare
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin

QUICK := tests/test_design.py tests/catalogue tests/verdict tests/runs correctness/test_kernels.py

.PHONY: bench test quick wheel check mutate clean

bench: $(READY)
	$(BIN)/python -m pytest bench $(COMPARE) $(ARGS)

test: $(READY)
	$(BIN)/python -m pytest tests correctness -n auto --maxprocesses=4 $(ARGS)

quick: $(READY)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest --quick $(QUICK) -n auto --maxprocesses=4 $(ARGS)

wheel: $(READY)
	$(BIN)/python -m pytest tests/test_wheel.py $(ARGS)

check: $(READY)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --persona=pedantic --quiet --no-progress --strict-collection .github/workflows
	$(BIN)/actionlint .github/workflows/*.yml
	$(BIN)/python -m tools.workflows

mutate: $(READY)
	$(BIN)/python -m tests.mutation.mutate $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache

$(READY): pyproject.toml tools/install.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV) || { echo "no virtual environments here: apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python tools/install.py
	@touch $@

# make test: tests the kernels and the engine, each kind once, on a GPU or on the software device; 5 to 12 minutes
# on two cores.
# make test-all: everything, also what is marked slow or once and each kernel on each shape. With PART=1/3 it is what
# `make test` runs and a third of what that leaves out; CI runs the three parts.
# make bench: times every kernel and compares with this GPU's baseline; three minutes on an H200.
# make bench COMPARE="--against main": times every kernel in turns with that of another revision.
# make check: checks style, types and workflows.
# make wheel: builds the distribution and lets a repository of its own use it; part of make test-all.
# make docs: makes a site of README, docs/ and the public modules' docstrings, and checks their links.
# make mutate: puts faults into the kernels and lists those that no test finds; some minutes on all cores.
# The first call of any of them makes the environment .venv. ARGS="..." is passed to pytest: -k chooses among the tests,
# and -m of your own stands in place of "not slow".
PYTHON ?= python3
COMPARE ?= --benchmark-compare
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin

# A test that takes longer than this hangs: it fails, and every thread's stack is shown.
LIMIT := -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true
# Python's compiled modules are kept, whatever the environment says: some hundred processes import the same ones.
# The tests of a file share its fixtures, many of which run pytest in a process of its own: they stay in one process.
# Some wait more than they compute: one process more than there are cores, four at most.
PROCESSES := $(shell cores=$$(nproc); echo $$((cores < 4 ? cores + 1 : 4)))
TESTS := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest tests correctness -n $(PROCESSES) \
	--dist=loadfile $(LIMIT)

.PHONY: bench test test-all wheel check docs mutate clean

bench: $(READY)
	@echo "make bench: about three minutes on an H200, from nothing compiled; ARGS=\"-k matmul\" times a part"
	$(BIN)/python -m pytest bench $(COMPARE) $(ARGS)

test: $(READY)
	@echo "make test: 5 to 12 minutes on two cores; ARGS=\"-k matmul\" tests a part"
	$(TESTS) -m "not slow" --launches=3 $(ARGS)

test-all: $(READY)
	$(TESTS) $(if $(PART),--part=$(PART)) $(ARGS)

wheel: $(READY)
	$(BIN)/python -m pytest tests/test_wheel.py $(ARGS)

check: $(READY)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/python -m check_jsonschema --builtin-schema vendor.github-actions .github/actions/*/action.yml
	$(BIN)/python -m check_jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci \
		--default-filetype yaml warpwatch/templates/gitlab*.yml.txt
	$(BIN)/zizmor --offline --persona=pedantic --quiet --no-progress --strict-collection .github/workflows .github/actions
	$(BIN)/actionlint .github/workflows/*.yml
	$(BIN)/python -m tools.workflows

docs: $(VENV)/docs/.ready
	PYTHONPATH=$(VENV)/docs $(BIN)/python -m sphinx -W --keep-going -q -c docs/site -d build/doctrees . build/site
	@echo "the first page is build/site/index.html"

mutate: $(READY)
	$(BIN)/python -m tests.mutation.mutate $(ARGS)

clean:
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache

$(READY): pyproject.toml tools/install.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV) || { echo "no virtual environments here: apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python tools/install.py
	@touch $@

$(VENV)/docs/.ready: $(READY)
	@$(BIN)/python tools/install.py --docs
	@touch $@

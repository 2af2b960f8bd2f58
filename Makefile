# A fresh machine needs Python >= 3.11 and make; these targets do the rest.
PYTHON ?= python3
PIP = .venv/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints-dev.txt

.PHONY: demo test test-gpu fuzz fuzz-kill versions check bench paper

demo: .venv/installed
	.venv/bin/clusterfug demo

# With compiled kernels, by two processes; then the tests of kernels once more with the kernels interpreted, so
# that coverage counts the lines inside them.
test: .venv/installed-dev
	.venv/bin/python -m pytest --numprocesses=2 --dist=loadfile --cov --cov-report=
	NUMBA_DISABLE_JIT=1 CLUSTERFUG_DATA= .venv/bin/python -m pytest -q -m kernels --cov --cov-append --cov-report=
	.venv/bin/python -m coverage report --fail-under=90

# On a machine with a CUDA GPU, by its own Python with its own torch and pytest: nothing is installed.
test-gpu:
	CLUSTERFUG_REQUIRE_CUDA=1 PYTHONPATH=src $(PYTHON) -m pytest tests/execution/torch tests/bounds

# Random hostile inputs, and commands that are killed, against oracles: make fuzz SECONDS=600 SEED=1
SECONDS = 300
SEED = 0
TIMES = 200
fuzz: .venv/installed-dev
	PYTHONPATH=tests .venv/bin/python -m fuzz --seconds $(SECONDS) --seed $(SEED)

fuzz-kill: .venv/installed-dev
	PYTHONPATH=tests .venv/bin/python -m fuzz.kill --times $(TIMES) --seed $(SEED)

# The tests on every Python that is found, with the newest and with the lowest dependencies, in environments of
# their own.
versions:
	$(PYTHON) tests/versions.py

check: .venv/installed-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

bench: .venv/installed-bench
	.venv/bin/python benchmarks/graphs.py
	.venv/bin/python benchmarks/foundation.py
	.venv/bin/python benchmarks/contraction.py
	.venv/bin/python benchmarks/quality.py
	.venv/bin/python benchmarks/optima.py
	.venv/bin/python benchmarks/sweep.py
	.venv/bin/python benchmarks/permuted.py
	.venv/bin/python benchmarks/thresholds.py
	.venv/bin/python benchmarks/mixed.py

# The paper's tables and figures at reduced size into docs/results; FULL=--full for the real sizes.
PAPER = table1 table2 table3 table4 table5 figure4 hubs neighbours
paper: .venv/installed-bench
	.venv/bin/python benchmarks/paper/figure1.py
	for name in $(PAPER); do .venv/bin/python benchmarks/paper/$$name.py $(FULL) || exit 1; done

.venv/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'clusterfug needs Python >= 3.11, found ' + sys.version)"
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints-dev.txt | .venv/bin/python
	$(PIP) --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(PIP) --editable ".[dev]"
	touch $@

.venv/installed-bench: .venv/installed-dev
	$(PIP) --editable ".[bench]"
	touch $@

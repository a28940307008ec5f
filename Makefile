# Every target makes and fills .venv on its own; `make help` lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:

# The first interpreter that is new enough and can make a virtual environment; override with PYTHON=...
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
ARGS ?=
NUMBA_VERSIONS ?= 0.63 0.64 0.65 0.66 0.67 0.68
BIN := .venv/bin

.PHONY: demo test quick test-gpu faults conformance numba-versions $(addprefix build/numba-,$(NUMBA_VERSIONS)) lint bench docs clean help

demo: .venv/.extra-demo ## run the demonstration
	$(BIN)/python -m nbgrad demo $(ARGS)

test: .venv/.extra-test .venv/.extra-demo ## run the tests; ARGS='-k tanh -x' is handed to pytest
	$(BIN)/python -m pytest $(ARGS)

# Files that compile little, of every package but that of CUDA.
QUICK := adjoint_explain adjoint_parameters adjoint_refused axes blocks cache_owners compiler_passes function \
	functional_trees huge_angles jit_errors messages ndarray optimizer outlining output protocols serialization \
	sorting state structure symbol_corrupted terms views
quick: .venv/.extra-test ## run the tests of files that take seconds, between edits
	$(BIN)/python -m pytest $(QUICK:%=tests/test_%.py) $(ARGS)

test-gpu: .venv/.extra-test .venv/.extra-demo .venv/.extra-cublas13 ## run the tests of devices on a GPU
	$(BIN)/python -m pytest -n 0 tests/cuda --ignore tests/cuda/test_compile.py $(ARGS)

faults: .venv/.extra-test ## run the long fault campaign (hours); ARGS='cache json --count 1000' picks
	cd tests && ../$(BIN)/python -m faults $(ARGS)

numba-versions: $(addprefix build/numba-,$(NUMBA_VERSIONS)) ## test what is relied on in Numba with each version of it

# The suite of the Python array API standard, which is in no package index: a checkout of data-apis/array-api-tests with
# its submodule. It takes complex dtypes for granted in two places. Left out: what needs these, NumPy's own departures
# (floor_divide of infinities, finfo of float32), and dtypes that there are not.
EXAMPLES ?= 500
NOT_REAL := fft or eig or eigvals or vecdot_conj or finfo or (special_cases and imag) or \
	((floordiv or floor_divide) and infinity)
conformance: .venv/.extra-test ## run the array API's tests on nbgrad.np; ARRAY_API_TESTS=path/to/array-api-tests
	@test -d "$(ARRAY_API_TESTS)/array-api/src" || \
		{ echo "set ARRAY_API_TESTS to a checkout of data-apis/array-api-tests, with its submodule" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check hypothesis ndindex pytest-json-report
	rm -rf build/conformance && mkdir -p build && cp -r "$(ARRAY_API_TESTS)" build/conformance
	cd build/conformance && \
	sed -i 's/\[(dt, dtype_nbits\[dt\]) for dt in complex_dtypes\]/& or [(None, 0)]/' array_api_tests/dtype_helpers.py && \
	sed -i 's/dh.dtype_to_name\[dh.widest_complex_dtype\]/"complex128"/' array_api_tests/test_signatures.py && \
	ARRAY_API_TESTS_MODULE=nbgrad.np ARRAY_API_TESTS_SKIP_DTYPES=complex64,complex128 \
	$(CURDIR)/$(BIN)/python -m pytest -q -n 2 array_api_tests --max-examples $(EXAMPLES) --disable-deadline \
		--derandomize --disable-extension fft -k "not ($(NOT_REAL))" $(ARGS)

lint: .venv/.extra-lint ## check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# asv's own --quick makes a single call of each, which says nothing of calls that take microseconds. Forked processes
# need not import everything again.
bench: .venv/.extra-bench ## time this checkout, briefly; ARGS='--bench MatMul' picks benchmarks
	@grep -qs '"machine": "'"$$(uname -n)"'"' ~/.asv-machine.json || \
		$(BIN)/asv machine --yes --config asv_bench/asv.conf.json >/dev/null
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 \
	$(BIN)/asv run --python=same --launch-method=forkserver --show-stderr --config asv_bench/asv.conf.json \
		-a rounds=1 -a repeat=5 -a sample_time=0.005 -a warmup_time=0.01 $(ARGS)

docs: .venv/.extra-docs ## build the site of docs/ into build/docs, without fetching anything; a warning is an error
	rm -rf build/docs docs/reference docs/tutorials
	$(BIN)/python -m sphinx -b html -q -W --keep-going -d build/doctrees docs build/docs

clean: ## remove build output and caches (the environment stays: rm -r .venv drops it)
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis nbgrad-demo
	rm -rf asv_bench/env asv_bench/results asv_bench/html
	find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-14s %s\n", $$1, $$2}'

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 with venv found; set PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv .venv

# Nothing of these environments but Numba and what it needs; each has a cache of its own.
$(addprefix build/numba-,$(NUMBA_VERSIONS)): build/numba-%:
	@test -d $@ || $(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check "numba==$*.*" scipy pytest pytest-xdist hypothesis
	PYTHONPATH=$(CURDIR) NBGRAD_CACHE_DIR=$(CURDIR)/$@/cache $@/bin/python -m pytest -q -n 0 $(ARGS) \
		tests/test_numba_internals.py tests/test_numba_internals_llvm.py

# One stamp an extra: installed again only when pyproject.toml changes.
.venv/.extra-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

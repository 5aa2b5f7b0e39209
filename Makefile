# Two commands are enough for a newcomer: `make demo` and `make test`. Both need Python 3.11+ and a package index.
PYTHON ?= python3
BIN := .venv/bin
# every test process uses one thread, so that two of them fill two cores
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help demo test slow coverage lint docs lowest bench-speed dist try-wheel clean
help:
	@echo "make demo         train four models on breast-cancer data, attack them, compare"
	@echo "make test         run the tests"
	@echo "make slow         run those that make test leaves out, for most of an hour"
	@echo "make coverage     run the tests and say which lines none of them reaches"
	@echo "make lowest       run a quick part of the tests with the oldest versions that pyproject.toml claims"
	@echo "make lint         style, types and the layer contract"
	@echo "make docs         build the documentation into site/"
	@echo "make bench-speed  measure the speed ratios into benchmarks/results/speed.json"
	@echo "make dist         build the wheel and the source distribution into dist/, and check them"
	@echo "make try-wheel    install that wheel alone into an empty environment and run the demo there"

.venv/.core: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit('r2et needs Python 3.11 or newer, this is ' + sys.version if sys.version_info < (3, 11) else 0)"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/.dev: .venv/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: .venv/.core
	$(BIN)/r2et demo --output demo

# a process takes tests that the other has not begun: what the tests of a file share is rarely made twice
test: .venv/.dev
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

# what repeats at length what the others check: by hand, before a release
slow: .venv/.dev
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -m slow $(ARGS)

# apart from `make test`, which it slows down; the floor is in pyproject.toml
coverage: .venv/.dev
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered $(ARGS)

# every lower bound takes part: tables, files, the command line, models, certificates, exported programs
QUICK := tests/test_ranking.py tests/test_scores.py tests/test_registry.py tests/test_progress.py tests/test_cli.py tests/tables \
	tests/files tests/checkpoints tests/report/test_page.py tests/report/test_pictures.py tests/data/test_image_files.py \
	tests/data/test_sources.py tests/cli/test_listing.py tests/estimator/test_saving.py tests/estimator/test_classifier.py \
	tests/validate tests/models tests/numerics tests/explainers/test_gradient.py tests/explainers/test_captum.py \
	tests/certificates/test_deterministic.py tests/certificates/test_smoothing.py tests/r2et_bench/test_paper_tables.py \
	tests/training/test_devices.py tests/predictors/test_programs.py

lowest:
	test -x .lowest/bin/python || $(PYTHON) -m venv .lowest
	$(PYTHON) .ci/lowest.py > .lowest/lowest.txt
	.lowest/bin/python -m pip install --quiet --disable-pip-version-check -c .lowest/lowest.txt \
		-e ".[bench,captum,distributed,graphs,parquet,processes,solvers]" \
		hypothesis psutil pytest pytest-randomly pytest-timeout pytest-xdist pyyaml
	$(ONE_THREAD) .lowest/bin/python -m pytest -n 2 --dist worksteal $(QUICK) $(ARGS)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench-speed: .venv/.dev
	$(ONE_THREAD) $(BIN)/python benchmarks/speed.py --output benchmarks/results/speed.json

.venv/.release: .venv/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[release]"
	@touch $@

dist: .venv/.release
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/twine check --strict dist/*

try-wheel: dist
	rm -rf empty
	$(PYTHON) -m venv empty
	empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd empty && bin/r2et --version && bin/r2et demo --output demo

clean:
	rm -rf .venv .lowest empty site demo runs .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage dist

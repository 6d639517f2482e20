# make demo           the main study, from a fresh clone to its report
# make test           formatting, lints, types and all tests
# make test-torch     the tests that need PyTorch, with a Python that has it: PYTHON_TORCH, of the same version as .venv
# make test-sanitize  the collective library with the address sanitizer, which needs a nightly Rust
# make library        the collective library, with the interface of NCCL: python/syncline/libsyncline_nccl.so
# make wheels         a source distribution and wheels in dist/, the one for this computer checked, others untested;
#                     10 minutes for each target (make test packs and tests what is built already)
# make fuzz           hostile input for every command: CASES of them, made from SEED; writes tests/fuzz/record.json
# make bench          speed of the engine
# make docs           builds the site of the documentation: site/index.html, which can be read offline
# make docs-check     runs every command of every page, slow ones included, and compares what it prints
# make picture        draws the results of the demo for README and the site: docs/assets/demo.svg
# make validation     fits the software model to measured tables, simulates runs of ns-3 and
#                     iterations of GPT training (15 minutes), writes docs/validation.md
# make records        simulates anew everything that is committed of simulations (ns-3, training, the ledger) and lists
#                     what differs (hours; make test does so with a sample)
# make reproduction   simulates the ledger of published figures (hours; goes on where it was ended), writes
#                     docs/reproduction.md
#
# Everything is installed into .venv, at the versions in requirements.txt; nothing outside this folder changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST_FILES := $(shell find crates -name '*.rs' -o -name 'Cargo.toml')
RUST_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(filter-out crates/runtime/% crates/nccl/%,$(RUST_FILES))
LIBRARY := python/syncline/libsyncline_nccl.so
LIBRARY_SOURCES := Cargo.toml Cargo.lock $(filter crates/core/% crates/topology/% crates/collective/% crates/runtime/% crates/nccl/%,$(RUST_FILES))

# How Rust is built: release, or dev, with whose parts tests are built as well.
PROFILE ?= release
BUILT = $${CARGO_TARGET_DIR:-target}/$(patsubst dev,debug,$(PROFILE))

HOST = $(shell rustc -vV | sed -n 's/^host: //p')

PYTHON_TORCH ?= python3
WHEELS := .venv-wheels
TARGETS ?=
CASES ?= 100000
SEED ?= 1

.PHONY: demo test test-torch test-sanitize library wheels fuzz bench docs docs-check picture validation \
  reproduction records tools
.DELETE_ON_ERROR:

demo: $(VENV)/.engine
	$(BIN)/syncline run ace/resnet50 --out runs/resnet50
	@echo
	@echo "The report is $(CURDIR)/runs/resnet50/report.html: open it in a browser."

# The collective library is tested on its own: what its tests need would have every other crate built once more.
test: $(VENV)/.engine $(LIBRARY)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	cargo test --workspace --exclude syncline-runtime --exclude syncline-nccl --quiet
	cargo test -p syncline-runtime -p syncline-nccl --quiet
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=python $(BIN)/lint-imports --no-cache --no-logo
	PYTHONPATH=. $(BIN)/python -m lab.rust_modules
	$(BIN)/pytest --numprocesses 2

# Everything but PyTorch comes from .venv, so that the other Python needs nothing else.
test-torch: $(VENV)/.engine $(LIBRARY)
	@$(PYTHON_TORCH) -c 'import torch' 2>/dev/null || { \
	  echo "$(PYTHON_TORCH) has no PyTorch. Name a Python that has: make test-torch PYTHON_TORCH=/path/to/python" >&2; exit 1; }
	PYTHONPATH=python:$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	  $(PYTHON_TORCH) -m pytest -m torch --numprocesses 0

# Only the library and the C programs are instrumented, not the test that starts them. The library has no runtime of
# the sanitizer of its own: it finds that of the program. Libraries that are opened as NCCL's is (RTLD_DEEPBIND) the
# sanitizer refuses.
SANITIZED = $${CARGO_TARGET_DIR:-target}/sanitized

test-sanitize: | tools
	@cargo +nightly --version >/dev/null 2>&1 || { \
	  echo "There is no nightly Rust, which the address sanitizer needs: rustup toolchain install nightly" >&2; exit 1; }
	RUSTFLAGS=-Zsanitizer=address cargo +nightly build --quiet -p syncline-nccl --target $(HOST) --target-dir $(SANITIZED)
	C_FLAGS="-g -fsanitize=address,undefined -fno-sanitize-recover=undefined -static-libasan" \
	  TESTED_LIBRARY=$$(realpath $(SANITIZED))/$(HOST)/debug/libsyncline_nccl.so \
	  cargo test --quiet -p syncline-nccl --test programs -- --skip forwarding::

fuzz: $(VENV)/.engine
	$(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED) --record

library: $(LIBRARY)

# For other computers: `make wheels TARGETS=aarch64-apple-darwin`, after `rustup target add` of the same. What is for this
# one is checked with the packages of .venv.
wheels: $(WHEELS)/.packages $(VENV)/.packages
	PATH=$(CURDIR)/$(WHEELS)/bin:$$PATH $(WHEELS)/bin/python release/wheels.py dist $(TARGETS:%=--only %)
	$(BIN)/python -m tests.distribution dist

$(WHEELS)/.packages: requirements-wheels.txt | tools
	$(PYTHON) -m venv $(WHEELS)
	$(WHEELS)/bin/pip install --quiet --disable-pip-version-check -r requirements-wheels.txt
	@touch $@

bench: $(VENV)/.engine
	cargo bench --workspace

docs: $(VENV)/.engine
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=python:. $(BIN)/mkdocs build --strict
	@echo "The documentation is $(CURDIR)/site/index.html: open it in a browser."

docs-check: $(VENV)/.engine
	$(BIN)/python -m tests.documents

picture: $(VENV)/.engine
	PYTHONPATH=python $(BIN)/python -m website.picture > docs/assets/demo.svg

validation: $(VENV)/.engine
	PYTHONPATH=python $(BIN)/python -m lab.validation --refit
	PYTHONPATH=python $(BIN)/python -m lab.ns3 --record
	PYTHONPATH=python $(BIN)/python -m lab.training_times --record
	PYTHONPATH=python $(BIN)/python -m lab.validation -o docs/validation.md

reproduction: $(VENV)/.engine
	$(BIN)/syncline reproduce --write docs/reproduction.md --keep runs/reproduction

records: $(VENV)/.engine
	$(BIN)/python -m tests.records --keep runs/reproduction

tools:
	@command -v cargo >/dev/null || { \
	  echo "Rust is missing: cargo is not on the PATH." >&2; \
	  echo "Install Rust 1.88 or later with rustup (see rust-lang.org, 'Install'), then run make again." >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { \
	  echo "Python is missing: $(PYTHON) is not on the PATH." >&2; \
	  echo "Install Python 3.11 or later with its venv module (Debian: apt install python3 python3-venv)." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is $$($(PYTHON) -V 2>&1), but Python 3.11 or later is needed." >&2; \
	  echo "Install one and name it: make PYTHON=python3.12" >&2; exit 1; }

# Order-only: the tools are checked every time, which makes nothing out of date.
$(VENV)/.packages: requirements.txt | tools
	$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing (Debian: apt install python3-venv)." >&2; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-compile -r requirements.txt
	@touch $@

# The engine is built into python/syncline; Python sources are used in place, so only Rust ones make it stale. How it
# was built is kept, so that a test can pack it into a wheel without building it anew.
$(VENV)/.engine: $(VENV)/.packages $(RUST_SOURCES) | tools
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile $(PROFILE) --quiet
	@{ echo PROFILE=$(PROFILE); env | LC_ALL=C sort | grep -E '^(CARGO_|RUSTFLAGS=)'; } > $@ || true

# The collective library knows nothing of Python. It is put where the package looks for it.
$(LIBRARY): $(LIBRARY_SOURCES) | tools
	cargo build --profile $(PROFILE) --quiet -p syncline-nccl
	install -s -m 755 $(BUILT)/libsyncline_nccl.so $@

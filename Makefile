# make demo           the main study, from a fresh clone to its report
# make test           formatting, lints, types and the tests of the first tier: 20 minutes on two cores, compiling included
# make test-all       all of that with slow tests, those of the collective library and every command of every page; SEED=2
#                     takes other random examples
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
LIBRARY_CRATES := $(addprefix crates/,core topology collective runtime nccl)
LIBRARY_SOURCES := Cargo.toml Cargo.lock $(filter $(LIBRARY_CRATES:%=%/%),$(RUST_FILES))

# What is measured or shown takes the engine that is built for speed; tests take any that is built from the present sources.
# Where there is none, they have it built with the parts that the tests of Rust are linked with.
ENGINE := $(VENV)/.engine
FAST_ENGINE := $(VENV)/.engine-release
TARGET = $${CARGO_TARGET_DIR:-target}

HOST = $(shell rustc -vV | sed -n 's/^host: //p')

PYTHON_TORCH ?= python3
WHEELS := .venv-wheels
TARGETS ?=
CASES ?= 100000
SEED ?= 1

.PHONY: demo test test-all test-torch test-sanitize library wheels fuzz bench docs docs-check picture validation \
  reproduction records tools
.DELETE_ON_ERROR:

demo: $(FAST_ENGINE)
	$(BIN)/syncline run ace/resnet50 --out runs/resnet50
	@echo
	@echo "The report is $(CURDIR)/runs/resnet50/report.html: open it in a browser."

define STATIC_CHECKS
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=python $(BIN)/lint-imports --no-cache --no-logo
	PYTHONPATH=. $(BIN)/python -m lab.rust_modules
endef

# The collective library is tested on its own: what its tests need would have every other crate built once more.
# Random examples are made from a seed, so that what fails is what was changed.
TEST_ENGINE := PROPTEST_RNG_SEED=$(SEED) cargo test --workspace --exclude syncline-runtime --exclude syncline-nccl --quiet
TEST_LIBRARY := PROPTEST_RNG_SEED=$(SEED) cargo test -p syncline-runtime -p syncline-nccl --quiet
TEST_PYTHON := $(BIN)/pytest --numprocesses 2 --hypothesis-seed $(SEED)

# The digest of the sources of which the tests of the collective library passed last, as make noted it; it is committed.
LIBRARY_PASSED := crates/nccl/tests/passed.sha256
LIBRARY_DIGEST := find Cargo.toml Cargo.lock $(LIBRARY_CRATES) -type f ! -path $(LIBRARY_PASSED) -print0 | LC_ALL=C sort -z | \
  xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1

test: $(ENGINE) $(LIBRARY)
	$(STATIC_CHECKS)
	$(TEST_ENGINE)
	@if [ "$$($(LIBRARY_DIGEST))" = "$$(cat $(LIBRARY_PASSED))" ]; then \
	  echo "The collective library is as it was when its tests passed; make test-all runs them in any case."; \
	else $(TEST_LIBRARY) && $(LIBRARY_DIGEST) > $(LIBRARY_PASSED); fi
	$(TEST_PYTHON) -m "not slow"

test-all: BEGAN := $(shell date +%s)
test-all: $(ENGINE) $(LIBRARY)
	$(STATIC_CHECKS)
	$(TEST_ENGINE)
	$(TEST_LIBRARY)
	@$(LIBRARY_DIGEST) > $(LIBRARY_PASSED)
	$(TEST_PYTHON)
	$(BIN)/python -m tests.documents
	@echo "All tests passed, in $$((($$(date +%s) - $(BEGAN) + 30) / 60)) minutes."

# Everything but PyTorch comes from .venv, so that the other Python needs nothing else.
test-torch: $(ENGINE) $(LIBRARY)
	@$(PYTHON_TORCH) -c 'import torch' 2>/dev/null || { \
	  echo "$(PYTHON_TORCH) has no PyTorch. Name a Python that has: make test-torch PYTHON_TORCH=/path/to/python" >&2; exit 1; }
	PYTHONPATH=python:$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	  $(PYTHON_TORCH) -m pytest -m torch --numprocesses 0

# Only the library and the C programs are instrumented, not the test that starts them. The library has no runtime of
# the sanitizer of its own: it finds that of the program. Libraries that are opened as NCCL's is (RTLD_DEEPBIND) the
# sanitizer refuses.
SANITIZED = $(TARGET)/sanitized

test-sanitize: | tools
	@cargo +nightly --version >/dev/null 2>&1 || { \
	  echo "There is no nightly Rust, which the address sanitizer needs: rustup toolchain install nightly" >&2; exit 1; }
	RUSTFLAGS=-Zsanitizer=address cargo +nightly build --quiet -p syncline-nccl --target $(HOST) --target-dir $(SANITIZED)
	C_FLAGS="-g -fsanitize=address,undefined -fno-sanitize-recover=undefined -static-libasan" \
	  TESTED_LIBRARY=$$(realpath $(SANITIZED))/$(HOST)/debug/libsyncline_nccl.so \
	  cargo test --quiet -p syncline-nccl --test programs -- --skip forwarding::

fuzz: $(FAST_ENGINE)
	$(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED) --record

library: | tools
	$(call INSTALL_LIBRARY,release)

# For other computers: `make wheels TARGETS=aarch64-apple-darwin`, after `rustup target add` of the same. What is for this
# one is checked with the packages of .venv.
wheels: $(WHEELS)/.packages $(VENV)/.packages
	PATH=$(CURDIR)/$(WHEELS)/bin:$$PATH $(WHEELS)/bin/python release/wheels.py dist $(TARGETS:%=--only %)
	$(BIN)/python -m tests.distribution dist

$(WHEELS)/.packages: requirements-wheels.txt | tools
	$(PYTHON) -m venv $(WHEELS)
	$(WHEELS)/bin/pip install --quiet --disable-pip-version-check -r requirements-wheels.txt
	@touch $@

bench: $(FAST_ENGINE)
	cargo bench --workspace

docs: $(ENGINE)
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=python:. $(BIN)/mkdocs build --strict
	@echo "The documentation is $(CURDIR)/site/index.html: open it in a browser."

docs-check: $(FAST_ENGINE)
	$(BIN)/python -m tests.documents

picture: $(FAST_ENGINE)
	PYTHONPATH=python $(BIN)/python -m website.picture > docs/assets/demo.svg

validation: $(FAST_ENGINE)
	PYTHONPATH=python $(BIN)/python -m lab.validation --refit
	PYTHONPATH=python $(BIN)/python -m lab.ns3 --record
	PYTHONPATH=python $(BIN)/python -m lab.training_times --record
	PYTHONPATH=python $(BIN)/python -m lab.validation -o docs/validation.md

reproduction: $(FAST_ENGINE)
	$(BIN)/syncline reproduce --write docs/reproduction.md --keep runs/reproduction

records: $(FAST_ENGINE)
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
# was built is kept, so that a test can pack it into a wheel without building it anew. pip's list of packages that are
# there is dropped; PIP_QUIET would keep maturin from marking the installation as editable.
define BUILD_ENGINE
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile $(1) --quiet >/dev/null
	@{ echo PROFILE=$(1); env | LC_ALL=C sort | grep -E '^(CARGO_|RUSTFLAGS=)'; } > $(ENGINE) || true
endef

$(FAST_ENGINE): $(VENV)/.packages $(RUST_SOURCES) | tools
	$(call BUILD_ENGINE,release)
	@touch $@

$(ENGINE): $(VENV)/.packages $(RUST_SOURCES) | tools
	@rm -f $(FAST_ENGINE)
	$(call BUILD_ENGINE,dev)

# The collective library knows nothing of Python. It is put where the package looks for it.
define INSTALL_LIBRARY
	cargo build --profile $(1) --quiet -p syncline-nccl
	install -s -m 755 $(TARGET)/$(patsubst dev,debug,$(1))/libsyncline_nccl.so $(LIBRARY)
endef

$(LIBRARY): $(LIBRARY_SOURCES) | tools
	$(call INSTALL_LIBRARY,dev)

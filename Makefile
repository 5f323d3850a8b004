# make demo    run the demo on every Python found
# make test    everything that must pass: formats, lints, Rust and Python tests on every Python
# make lint    formats, lints and types alone
# make bench   speed, against other ways to run the same kernels
# make docs    the documentation, into site/
# make release an sdist and a manylinux wheel, tried in clean environments
# make clean   forget the virtual environments and the wheel
#
# Each Python found gets a virtual environment under .venvs/; one wheel is built for all of them.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:

PYTEST_ARGS ?= -n auto
BENCH_ARGS ?=

ifndef PYTHONS
PYTHONS := $(shell .ci/pythons)
endif
export PYTHONS
VERSIONS := $(foreach p,$(PYTHONS),$(firstword $(subst =, ,$(p))))
NEWEST := $(lastword $(VERSIONS))
ifeq ($(VERSIONS),)
$(error no Python 3.11, 3.12 or 3.13 was found)
endif

# The oldest JAX that is served is tested on the oldest Python, the newest one on the others.
JAX_3.11 := "jax==0.10.2" "jaxlib==0.10.2"
jax = $(or $(JAX_$(1)),"jax>=0.12")
python = .venvs/$(1)/bin/python
interpreter = $(patsubst $(1)=%,%,$(filter $(1)=%,$(PYTHONS)))

RUST := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml)
PACKAGE := $(shell find python -name '*.py' -o -name '*.pyi' -o -name py.typed)

.PHONY: demo test lint docs bench release clean venvs rust-test $(VERSIONS:%=pytest-%) $(VERSIONS:%=demo-%)

demo: $(VERSIONS:%=demo-%)

$(VERSIONS:%=demo-%): demo-%: .venvs/%/.wheel
	@echo "── demo on Python $* ──"
	$(call python,$*) examples/demo.py

test:
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory rust-test
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory $(VERSIONS:%=pytest-%)
	@echo "── tested ──"
	@for version in $(VERSIONS); do \
	  .venvs/$$version/bin/python -c 'import platform, jax, jaxlib, pallas_rs; print(f"Python {platform.python_version()}, jax {jax.__version__}, jaxlib {jaxlib.__version__}, pallas-rs {pallas_rs.__version__}")'; \
	done
	@for version in 3.11 3.12 3.13; do \
	  case " $(VERSIONS) " in *" $$version "*) ;; *) echo "Python $$version: not found, not tested";; esac; \
	done

lint: .venvs/$(NEWEST)/.deps
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(call python,$(NEWEST)) -m ruff format --check .
	$(call python,$(NEWEST)) -m ruff check .
	$(call python,$(NEWEST)) -m mypy

rust-test:
	@if cargo nextest --version >/dev/null 2>&1; then \
	  cargo nextest run --workspace && cargo test --workspace --doc; \
	else \
	  cargo test --workspace; \
	fi

$(VERSIONS:%=pytest-%): pytest-%: .venvs/%/.wheel
	@echo "── pytest on Python $* ──"
	$(call python,$*) -m pytest $(PYTEST_ARGS)

docs: .venvs/$(NEWEST)/.wheel
	$(call python,$(NEWEST)) -m mkdocs build --quiet --strict

release: .venvs/$(NEWEST)/.deps
	.ci/release $(call python,$(NEWEST))

bench: .venvs/$(NEWEST)/.wheel
	cargo bench --workspace
	$(call python,$(NEWEST)) benches/pallas_call.py $(BENCH_ARGS)
	$(call python,$(NEWEST)) benches/compare.py $(BENCH_ARGS)

venvs: $(VERSIONS:%=.venvs/%/.wheel)

$(VERSIONS:%=.venvs/%/.deps): .venvs/%/.deps: pyproject.toml
	$(call interpreter,$*) -m venv --clear .venvs/$*
	$(call python,$*) -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(call python,$*) -m pip install --quiet $(call jax,$*) --group test --group lint --group docs
	@touch $@

$(VERSIONS:%=.venvs/%/.wheel): .venvs/%/.wheel: .venvs/%/.deps dist/.wheel
	$(call python,$*) -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	@touch $@

dist/.wheel: $(RUST) $(PACKAGE) pyproject.toml README.md LICENSE | .venvs/$(NEWEST)/.deps
	rm -rf dist
	$(call python,$(NEWEST)) -m pip wheel --quiet --no-deps --wheel-dir dist .
	@touch $@

clean:
	rm -rf .venvs dist site

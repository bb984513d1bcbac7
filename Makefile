# kafkalite: `make demo` shows it, `make test` checks it. A fresh machine needs Python 3.11 or newer and Java 17 or newer.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint bench soak install java jdk clean

$(STAMP): pyproject.toml
	@echo "installing into $(VENV): a minute or two"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip
	$(BIN)/python -m pip install -qq -e '.[dev]'
	touch $(STAMP)

install: $(STAMP) java

java:
	@command -v java >/dev/null 2>&1 || test -x "$$JAVA_HOME/bin/java" || { \
	  echo "Java is missing: ZooKeeper needs it. Debian: apt-get install default-jre-headless (or set JAVA_HOME)" >&2; exit 1; }

# The tests compile programs around Kafka's own clients.
jdk:
	@command -v javac >/dev/null 2>&1 || test -x "$$JAVA_HOME/bin/javac" || { \
	  echo "A Java compiler is missing: the tests need it. Debian: apt-get install default-jdk-headless (or set JAVA_HOME)" >&2; exit 1; }

demo: install
	$(BIN)/python -m kafkalite.cli.main demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg --no-logo

# Lint, types and contracts are tests of the suite too (integration/test_lint.py), so that there is one closing summary.
test: install jdk
	$(BIN)/python -m pytest --durations=25

soak: install jdk
	KAFKALITE_SOAK=1 $(BIN)/python -m pytest -s -m soak -o timeout=0 integration

bench: install
	$(BIN)/python -m integration.bench.run $(BENCH)

clean:
	rm -rf $(VENV) build *.egg-info

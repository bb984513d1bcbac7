# kafkalite: `make demo` shows it, `make check` and `make test` check it. A fresh machine needs Python 3.11 or newer and Java 17 or newer.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo check test test-all lint bench soak install java jdk peers clean

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

# Two workers, each with what belongs together (integration/harness/schedule.py); the closing summary is one for all.
# Lint, types and contracts are tests of the suite (integration/test_lint.py).
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --durations=25 --junitxml=build/tests/junit.xml

# Lint, types, contracts, unit tests and simulated histories.
check: $(STAMP)
	$(PYTEST) integration/test_lint.py tests

# The same and the integration tests, but for the rounds and the Spark clusters that `make test-all` adds.
test: install jdk peers
	$(PYTEST) -m "not full"

test-all: install jdk peers
	$(PYTEST)

# Kafka's own programs, from Maven Central, before a test has to wait for them.
peers: $(STAMP)
	$(BIN)/python -m integration.harness.peers

soak: install jdk peers
	KAFKALITE_SOAK=1 $(BIN)/python -m pytest -s -m soak -o timeout=0 integration
	$(BIN)/python -m kafkalite.testing.simulation --seeds 1..10000 --jobs $(WORKERS)

bench: install
	$(BIN)/python -m integration.bench.run $(BENCH)

clean:
	rm -rf $(VENV) build *.egg-info

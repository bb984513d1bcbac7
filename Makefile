# kafkalite: `make demo` shows it, `make check` and `make test` check it. A fresh machine needs Python 3.11 or newer and Java 17 or newer.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Every broker that a test starts would otherwise compile the package again, which takes half of its start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test test-all lint docs bench soak install java jdk peers clean

$(STAMP): pyproject.toml
	@echo "installing into $(VENV): a minute or two"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip
	$(BIN)/python -m pip install -qq -e '.[dev]'
	# The package gssapi has no wheels for Linux: it is built, fast rather than well, where that can be done.
	if command -v krb5-config >/dev/null 2>&1 && command -v gcc >/dev/null 2>&1; then \
	  CFLAGS='-O0 -g0' $(BIN)/python -m pip install -qq -e '.[gssapi]' || \
	  echo "the package gssapi cannot be built: the tests of Kerberos are left out" >&2; fi
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
	$(BIN)/python -m kafkalite.cli.main demo $(DEMO)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg --no-logo

# Three workers for two processors, because tests mostly wait. Each has what belongs together
# (integration/harness/schedule.py); the closing summary is one for all.
# Lint, types and contracts are tests of the suite (integration/test_lint.py).
WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --durations=25 --junitxml=build/tests/junit.xml

# Lint, types, contracts, unit tests and simulated histories.
check: $(STAMP)
	$(PYTEST) integration/test_lint.py tests

# The same and the integration tests, but for the rounds and the Spark clusters that `make test-all` adds.
test: install jdk peers
	$(PYTEST) -m "not full"

# Everything: the tests marked full in place of their short forms.
test-all: install jdk peers
	$(PYTEST) -m "not short"

# Kafka's own programs, from Maven Central, and the archive of Spark's classes, before a test has to wait for them.
peers: $(STAMP)
	$(BIN)/python -m integration.harness.peers
	$(BIN)/python -m integration.harness.spark_archive

soak: install jdk peers
	KAFKALITE_SOAK=1 $(BIN)/python -m pytest -s -m soak -o timeout=0 integration tests
	$(BIN)/python -m kafkalite.testing.simulation --seeds 1..10000 --jobs $(WORKERS)

# The site of docs/ in build/docs, which a browser can read from the disk; a warning or a dead link is an error.
docs: $(STAMP)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --builder html --doctree-dir build/doctrees docs build/docs
	@echo "build/docs/index.html"

bench: install
	$(BIN)/python -m integration.bench.run $(BENCH)

clean:
	rm -rf $(VENV) build *.egg-info

# Every target works from a fresh clone with nothing but Python 3.11+; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNNABLE := $(VENV)/.runnable
STAMP := $(VENV)/.installed
CLIENT_STAMP := .venv-client/.installed
# `make spark PYSPARK=4.1.1` tests with that version instead of the newest, in an environment of its own.
PYSPARK ?=
SPARK_VENV := $(if $(PYSPARK),.venv-pyspark-$(PYSPARK),$(VENV))
ARGS ?=
SPARK := tests/spark compat_tests/spark
CLIENTS := compat_tests/admin/test_shells.py compat_tests/flink compat_tests/go compat_tests/node compat_tests/rust \
	compat_tests/java/test_versions.py compat_tests/java/test_spring.py compat_tests/java/test_perf_transactions.py \
	compat_tests/websocket/test_java_tools.py compat_tests/websocket/test_other_clients.py
MIXED := $(wildcard compat_tests/cluster/test_mixed_*.py)
LONG := $(wildcard compat_tests/cluster/test_long_*.py)
BESIDE := -n 2 --dist loadfile

# Images of containers often set it. Without compiled modules pytest would write the assertions of all tests anew in each
# run, and every process that a test starts would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run check lint types unit test compat bench proto clean sim sim-mutants damage mutants soak chaos bank histories twins spark spark-rounds clients cluster mixed kazoo scale pictures

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 12

$(RUNNABLE): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	MAGNETAR_COMPILED=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(STAMP): $(RUNNABLE)
	@echo "installing what tests and measurements need, Spark among it: over 1 GB, a few minutes the first time"
	MAGNETAR_COMPILED=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

install: $(STAMP)  ## make .venv with everything needed to run, test and measure

run: $(RUNNABLE)  ## install what a server needs, then start a standalone one (ARGS="--data-dir DIR --broker-port N ...")
	$(BIN)/magnetar standalone $(ARGS)

check: $(STAMP)  ## lint, types and unit tests, beside each other (under two minutes)
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target lint types unit

lint: $(STAMP)
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	MAGNETAR_TEST_ROUNDS=few $(BIN)/pytest -q $(BESIDE) -m "not process and not slow" tests

test: $(STAMP)  ## all tests: unit, fuzz, packaging, crash rounds, Apache's software, the official client, Spark
	@$(MAKE) --no-print-directory lint types
	@failed=0; set -x; \
	$(BIN)/pytest -q -m "not long" $(BESIDE) $(SPARK:%=--ignore=%) $(CLIENTS:%=--ignore=%) $(MIXED:%=--ignore=%) $(LONG:%=--ignore=%) || failed=1; \
	$(BIN)/pytest -q -m "not long" $(BESIDE) $(SPARK) || failed=1; \
	exit $$failed

ifneq ($(PYSPARK),)
$(SPARK_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(SPARK_VENV)
	MAGNETAR_COMPILED=0 $(SPARK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' 'pyspark==$(PYSPARK)'
	@touch $@
endif

spark: $(SPARK_VENV)/.installed  ## all tests of Spark, the long ones too, with stores of npm and Maven (fifteen minutes; PYSPARK=4.1.1: with that version)
	$(SPARK_VENV)/bin/pytest -q $(BESIDE) $(SPARK) $(ARGS)

cluster: $(STAMP)  ## the tests of compat_tests/python on clusters of three brokers, and the long tests of failures (twenty minutes)
	@failed=0; set -x; \
	MAGNETAR_CLUSTER=1 $(BIN)/pytest -q compat_tests/python $(ARGS) || failed=1; \
	$(BIN)/pytest -q $(LONG) $(ARGS) || failed=1; \
	$(BIN)/pytest -q -m long compat_tests/cluster/test_transactions.py $(ARGS) || failed=1; \
	exit $$failed

mixed: $(STAMP)  ## clusters of Apache's brokers and ours side by side; needs Java, minutes for each test
	$(BIN)/pytest -q $(MIXED) $(ARGS)

pictures: $(STAMP)  ## make the pictures of docs/CONSOLE.md anew; needs Chromium
	MAGNETAR_PICTURES=docs/console $(BIN)/pytest -q compat_tests/console/test_commands.py

clients: $(STAMP)  ## the clients of other languages (Go, Node, Rust, older Java, Spring, Flink) and shells (zsh, fish); needs their tools, minutes to compile at first
	@failed=0; set -x; \
	$(BIN)/pytest -q $(CLIENTS) $(ARGS) || failed=1; \
	$(BIN)/pytest -q -m long compat_tests/java $(ARGS) || failed=1; \
	exit $$failed

$(CLIENT_STAMP):
	$(PYTHON) -m venv .venv-client
	.venv-client/bin/python -m pip install --quiet --disable-pip-version-check 'pulsar-client[all]==3.13.0' requests
	@touch $@

compat: $(STAMP) $(CLIENT_STAMP)  ## the official Python client's own suite (PULSAR_CLIENT_SUITE=its folder, CLUSTER=1: on a cluster, ARGS="-k text")
	MAGNETAR_CLUSTER=$(CLUSTER) PULSAR_CLIENT_PYTHON=$(abspath .venv-client/bin/python) $(BIN)/python -m compat_tests.official $(ARGS)

KAZOO_STAMP := .venv-kazoo/.installed
$(KAZOO_STAMP):
	$(PYTHON) -m venv .venv-kazoo
	.venv-kazoo/bin/python -m pip install --quiet --disable-pip-version-check 'kazoo==2.11.0' pytest pytest-timeout objgraph gevent eventlet pyjks pyopenssl
	@touch $@

kazoo: $(STAMP) $(KAZOO_STAMP)  ## kazoo's own test-suite against `magnetar zookeeper`, from PyPI (two minutes; ARGS="-k text")
	KAZOO_PYTHON=$(abspath .venv-kazoo/bin/python) $(BIN)/python -m compat_tests.kazoo_suite $(ARGS)

bench: $(STAMP)  ## measure (PEER=folder of Apache Pulsar's jars measures both side by side)
	$(BIN)/python -m bench $(if $(PEER),--peer $(PEER)) $(ARGS)

TOPICS ?= 600000
scale: $(STAMP)  ## measure a cluster with up to TOPICS topics in its metadata (default 600000; half an hour)
	$(BIN)/python -m bench --only scale --topics $(TOPICS) $(ARGS)

SEEDS ?= 10000
BROKER_SEEDS ?= 1000
sim: $(STAMP)  ## tell SEEDS random histories of the replicated log (default 10000; 0.1 s each) and BROKER_SEEDS of brokers (1000; 0.7 s each)
	$(BIN)/python -m tests.sim --seeds $(SEEDS) $(ARGS)
	$(BIN)/python -m tests.sim --brokers --seeds $(BROKER_SEEDS) $(ARGS)

sim-mutants: $(STAMP)  ## plant bugs of brokers, each in up to SEEDS histories (default 300), and see whether a claim breaks
	$(BIN)/python -m tests.sim --mutations --seeds $(if $(filter file,$(origin SEEDS)),300,$(SEEDS)) $(ARGS)

damage: $(STAMP)  ## damage every kind of file in every way, ROUNDS times (default 20, minutes each; ARGS="--seed N --only REGEX")
	$(BIN)/python -m tests.damage --rounds $(or $(ROUNDS),20) $(ARGS)

MINUTES ?= 10
soak: $(STAMP)  ## every feature at once for MINUTES (default 10) with kills; then everything is judged (ARGS="--seed N")
	$(BIN)/python -m compat_tests.soak --minutes $(MINUTES) $(ARGS)

chaos: $(STAMP)  ## faults on a cluster of real processes and its network, ROUNDS times (default 20, half a minute each; SEED=N)
	$(BIN)/python -m compat_tests.chaos --rounds $(or $(ROUNDS),20) $(if $(SEED),--seed $(SEED)) $(ARGS)

bank: $(STAMP)  ## money moves by transactions while a server is killed ROUNDS times (default 100, five seconds each; ARGS="--brokers 3 --seed N")
	$(BIN)/python -m compat_tests.bank --rounds $(or $(ROUNDS),100) $(ARGS)

histories: $(STAMP)  ## COUNT random histories of transactions (default 200), told to Apache's broker and to ours (SEED=N)
	$(BIN)/python -m compat_tests.histories --count $(or $(COUNT),200) $(if $(SEED),--seed $(SEED)) $(ARGS)

twins: $(STAMP)  ## random frames to a server from the sources and to MAGNETAR_INTERPRETER's, for MINUTES (default 10; ARGS="--seed N")
	$(BIN)/python -m tests.twins --minutes $(MINUTES) $(ARGS)

MUTANTS ?= 300
mutants: $(STAMP)  ## plant MUTANTS small bugs (default 300) and see whether the nearest tests notice (ARGS="--seed N --area storage")
	$(BIN)/python -m tests.mutants --count $(MUTANTS) $(ARGS)

spark-rounds: $(STAMP)  ## kill Spark's jobs and the server ROUNDS times (default 5, a minute each; ARGS="--job JOB --seed N --store s3", azure or hdfs)
	$(BIN)/python -m compat_tests.spark.kill_rounds --rounds $(or $(ROUNDS),5) $(ARGS)

proto: $(STAMP)  ## make pulsar_proto/pb/*_pb2.py anew from our .proto files
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pulsar_proto.pb.generate

clean:  ## remove .venv and caches
	rm -rf $(VENV) .venv-client .venv-kazoo .venv-pyspark-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Every target installs what it needs into a virtual environment.
# The first Python on the path that is new enough:
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
NODE   := .node
JARS   := .jars
JAVA_DRIVER := 5.2.1
# The tests start some programs hundreds of times: keep their compiled modules.
unexport PYTHONDONTWRITEBYTECODE
# What a target needs is prepared side by side: installing waits for the network most of the time.
MAKEFLAGS += --jobs=4
# More than cores: tests of servers and of Spark wait as often as they work.
TESTERS ?= 4
# Each has a JVM, which takes long to become fast: a second one pays off, a third one does not.
JVM_TESTERS ?= 2
# Of each random comparison with a real MongoDB.
SEEDS ?= 20

.PHONY: browser clients collected java package site mongod mongo-tools lint run serve tour test test-jvm test-others test-slow test-icu oracle mutants check attack bench native clean

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Tailrace needs Python 3.11 or newer on the path"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Other clients that the tests run. Without npm or its registry those tests are skipped.
$(NODE)/.ready: tests/clients/package.json
	@mkdir -p $(NODE) && cp $< $(NODE)/package.json
	@for attempt in 1 2; do npm install --prefix $(NODE) --no-audit --no-fund --no-package-lock --ignore-scripts \
		--silent --fetch-retries 1 --fetch-retry-mintimeout 1000 --fetch-retry-maxtimeout 5000 && touch $@ && exit; done; \
		echo "SKIPPED: the Node.js driver and mongosh could not be installed; their tests do not run"

# Ivy, which Spark brings along, resolves the Java driver. Without its repository or Java that test is skipped.
$(JARS)/.ready: | $(READY) java
	@mkdir -p $(JARS)
	@for attempt in 1 2; do java -cp "$$($(BIN)/python -c 'import pyspark; print(pyspark.__path__[0])')/jars/*" \
		org.apache.ivy.Main -warn -confs default -cache $(JARS)/cache -dependency org.mongodb mongodb-driver-sync \
		$(JAVA_DRIVER) -retrieve "$(JARS)/[artifact].[ext]" && test -s $(JARS)/mongodb-driver-sync.jar && \
		touch $@ && exit; done; \
		echo "SKIPPED: the Java driver could not be downloaded; its test does not run"

clients: $(NODE)/.ready $(JARS)/.ready ## the Node.js driver, mongosh and the Java driver, for the tests

mongod: $(READY) ## a real MongoDB server, for the tests that compare with it
	@$(BIN)/python -m tools.get_mongod || true

# A minute of a core: not part of `make test`, which runs their tests where they are.
mongo-tools: $(READY) ## mongodump, mongorestore, mongotop and the other tools of MongoDB, built with Go, for their tests
	@$(BIN)/python -m tools.get_mongo_tools || true

# The tests of the page are skipped where there is none.
browser: ## Chromium for the tests of the page, from the packages of the system
	@as_root=$$(test "$$(id -u)" = 0 || echo sudo -n); \
	install="$$as_root apt-get install --yes --no-install-recommends chromium"; \
	command -v chromium > /dev/null || $$install > /dev/null 2>&1 || \
		{ $$as_root apt-get update && $$install; } > /dev/null 2>&1 || \
		echo "SKIPPED: Chromium could not be installed with apt-get; the tests of the page in a browser do not run"

java: $(READY) ## Java for Spark, installed if there is none
	@$(BIN)/python -m tailrace.pipeline.java

run: $(READY) java ## a tour of the system: a replica set, its pipeline, a stream; with SHARDS=3 a cluster, with SOURCE=URI your own MongoDB
	$(BIN)/python -m $(if $(SOURCE),examples.front_demo '$(SOURCE)',$(if $(SHARDS),examples.sharded_demo $(SHARDS),examples.demo))

serve: $(READY) ## a replica set that runs until it is interrupted
	$(BIN)/tailrace serve

tour: $(READY) ## replay a sample oplog
	$(BIN)/python -m examples.replay_tour

lint: $(READY) ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint ## lint, types and the fast tests
	$(BIN)/pytest -q -m "not slow" --ignore tests/laws -n $(TESTERS) --dist worksteal

test: lint collected browser clients java mongod package ## what CI runs
	$(MAKE) --output-sync=target --keep-going test-jvm test-others

# pytest rewrites and caches every test module: once here, not in each tester at the same time.
collected: $(READY)
	@$(BIN)/pytest --collect-only -q > /dev/null || true

# Two runs side by side, so that few testers start a JVM.
test-jvm:
	$(BIN)/pytest -m "jvm and not slow" -n $(JVM_TESTERS) --dist worksteal

test-others:
	$(BIN)/pytest -m "not jvm and not slow" -n $(TESTERS) --dist worksteal

test-slow: $(READY) java ## long property runs
	$(BIN)/pytest -m slow -n $(TESTERS) --dist worksteal --timeout 3600

test-icu: $(READY) ## the tests of collations with ICU, which the environment of the others does not have
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps --upgrade \
		--target $(VENV)/icu pyicu-wheels
	PYTHONPATH=$(VENV)/icu $(BIN)/pytest -q tests/query/test_collation.py tests/query/test_collation_icu.py \
		tests/query/test_sorting.py tests/mongod/store/test_index_keys.py tests/mongod/server/test_indexes.py

oracle: $(READY) java mongod mongo-tools ## everything beside a real MongoDB, with SEEDS seeds; and its tools
	TAILRACE_ORACLE_SEEDS=$(SEEDS) $(BIN)/pytest tests/oracle tests/clients/test_mongo_tools.py -n $(TESTERS) --dist worksteal

mutants: $(READY) java ## how many seeded changes of the source the tests notice: SEED, COUNT, ONLY, RECORD=1
	$(BIN)/python -m tools.mutants $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(ONLY),--only $(ONLY)) \
		$(if $(RECORD),--record)

attack: $(READY) mongod ## what careless and hostile clients cost the others; with PART=fuzz one part
	$(BIN)/python -m attack $(PART)

# Nothing else needs it: where there is no cargo, numpy does the same.
native: $(READY) ## the compiled kernel, built with cargo into the environment, and its tests
	@if command -v cargo > /dev/null; then \
		$(BIN)/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps ./native && \
		$(BIN)/pytest -q -m "not slow" tests/lake/test_kernel.py tests/lake/test_bulk_rows.py \
			tests/lake/test_bulk_forms.py tests/lake/test_kernel_texts.py tests/spark/test_bulk_columns.py -n 2; \
	else echo "SKIPPED: the compiled kernel needs cargo, which is not on the path; numpy makes the rows"; fi

# In an environment of its own: what builds a package is not what it needs, and the wheel has to work with nothing else.
INTO_PACKAGE = $(BIN)/pip --python $(VENV)/package/bin/python install --quiet --disable-pip-version-check --no-compile
package: export PACKAGE_ADDRESS := $(ADDRESS)
package: $(READY) ## the wheel and the source distribution in out/dist, built, checked and installed; ADDRESS=https://...: where the project is published
	$(BIN)/python -m venv --clear --without-pip $(VENV)/package
	$(INTO_PACKAGE) build 'setuptools>=77' twine
	mkdir -p out && rm -rf out/dist && $(VENV)/package/bin/python -m build --no-isolation --outdir out/dist . > out/package.log 2>&1 || \
		{ cat out/package.log; exit 1; }
	$(VENV)/package/bin/twine check --strict out/dist/*
	$(BIN)/python -m venv --clear --without-pip $(VENV)/package
	$(INTO_PACKAGE) --constraint constraints.txt out/dist/*.whl
	cd out && ../$(VENV)/package/bin/tailrace --version && ../$(VENV)/package/bin/tailrace config > /dev/null

site: $(READY) ## the documentation as a site with search, in out/site
	$(BIN)/python -m venv $(VENV)/site
	$(VENV)/site/bin/pip install --quiet --disable-pip-version-check 'mkdocs-material>=9.6,<10'
	$(VENV)/site/bin/mkdocs build --strict --quiet

bench: $(READY) ## ratios measured in one run
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) $(NODE) $(JARS) .mongod .mongo-tools .mypy_cache .pytest_cache .ruff_cache .mutants out native/target native/Cargo.lock

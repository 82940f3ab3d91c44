# Each target installs what it needs: a virtual environment with pinned packages, and midturn in it.
# Tasks that are rarely needed are in tools/task.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := .venv-demo
AUDIT := .venv-audit
HOMESERVER := .venv-homeserver
BENCHES := $(filter-out $(patsubst %,benchmarks/%.py,check counted queued turns contestants table scale),$(wildcard benchmarks/*.py))
UV := $(shell command -v uv 2>/dev/null)

# The real parts that tests need, and the folders of their tests. `make test-postgres` runs the tests of one part.
REAL_PARTS := postgres web agents mcp sandbox channels
FOLDER_postgres := tests/stores tests/operations tests/integrations tests/stories tests/acp_agent tests/agui tests/a2a_server \
	tests/torture
FOLDER_web := tests/web/browser
FOLDER_agents := tests/real_agents
FOLDER_mcp := tests/conformance
FOLDER_channels := tests/channels tests/stories/test_every_interface.py
FOLDER_sandbox := tests/security tests/cli/test_hostile_child.py
# Folders of several parts overlap. These names select the tests of one part.
NAME_postgres := PostgreSQL
NAME_channels := channels

.PHONY: demo test test-real test-peers check format docs torture attacks stories bench bench-check audit pythons dist pins parts clean
.PHONY: $(addprefix test-,$(REAL_PARTS))

# Play the demo: one turn with a scripted model. It needs no key and no network.
demo: $(DEMO)/.ready
	@$(DEMO)/bin/midturn demo

# Run all tests that need only Python. `make test ARGS="tests/turn -k late"` runs some of them.
test: $(READY)
	@tools/run_tests $(ARGS)

# Install the real parts (PostgreSQL, browsers, agents, servers), and run the tests that need them. A skipped test is a failure.
test-real: parts $(addprefix test-,$(REAL_PARTS))

$(addprefix test-,$(REAL_PARTS)): test-%: $(READY)
	@MIDTURN_REAL=$(or $(NAME_$*),1) tools/with_parts tools/run_tests -m real $(FOLDER_$*)

test-channels: $(HOMESERVER)/.ready

# Run the tests that need many other packages. Do this before a release.
test-peers: $(READY)
	@for task in newest-postgres test-firefox test-postfix oldest-frameworks; do tools/task $$task || exit 1; done
	@$(BIN)/python tools/try_extras.py

# Check style, types, imports, examples, documents and counts.
check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright
	@$(BIN)/lint-imports
	@PYTHONPATH=tests $(BIN)/python tools/check_examples.py
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory bench-check

# Format the code.
format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Build the site, and check links, navigation and reference.
docs: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Kill workers thousands of times, and check that nothing was lost. KILLS=100 is shorter.
torture: $(READY)
	@tools/install_parts
	@tools/with_parts $(BIN)/python tests/torture/torture.py files --kills $(or $(KILLS),10000) --conversations 200
	@tools/with_parts $(BIN)/python tests/torture/torture.py postgres --kills $(or $(KILLS),500) --crashes 20 --conversations 300
	@tools/with_parts $(BIN)/python tests/torture/torture.py dbos --kills $(or $(KILLS),500) --crashes 20 --conversations 300

# Run the attacks on each promise of SECURITY.md, and count those that succeed.
attacks: $(READY)
	@tools/with_parts $(BIN)/python tests/attacks.py

# Run the same stories and decision rules through every interface, and print the tables of differences.
stories: $(READY)
	@PYTHONPATH=tests tools/with_parts $(BIN)/python -m support.stories.table
	@PYTHONPATH=tests tools/with_parts $(BIN)/python -m support.decisions.table

# Measure the cost of questions, stores, prompts and the page.
bench: $(READY)
	@for script in $(BENCHES); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Compare counts (bytes, syncs, files, calls, imported modules) with benchmarks/figures.json.
bench-check: $(READY)
	@$(BIN)/python benchmarks/check.py $(ARGS)

# List installed packages, unused dependencies and known vulnerabilities.
audit: $(AUDIT)/.ready $(READY)
	@tools/audit $(AUDIT)

# Run the tests with the other installed Python versions.
pythons: $(READY)
	@tools/try_pythons $(ARGS)

# Build the source archive and the wheel, install and try them, and print what a release needs.
dist: $(READY)
	@tools/dist

# Pin every package with its hashes.
pins: $(READY)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-emit-index-url --no-header \
		--all-extras --group dev pyproject.toml --output-file requirements.txt
	@printf 'hatchling\neditables\n' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --constraints requirements.txt pyproject.toml - --output-file tools/demo-requirements.txt

# Install PostgreSQL, browsers, agents and servers for `make test-real`.
parts:
	@tools/install_parts

# Remove environments and caches.
clean:
	@rm -rf $(VENV) $(DEMO) $(AUDIT) $(HOMESERVER) .venv-peers dist sbom.json site .coverage .coverage.* .pytest_cache .ruff_cache \
		.hypothesis .import_linter_cache

# The environments. The demo needs only the packages of `pip install .`.

$(READY): requirements.txt pyproject.toml
ifdef UV
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --require-hashes -r requirements.txt
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --no-build-isolation -e .
else
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
endif
	@touch $@

$(DEMO)/.ready: tools/demo-requirements.txt pyproject.toml
	@echo "Setting up $(DEMO) (once): a virtual environment ..."
	@$(PYTHON) -m venv $(DEMO)
	@echo "... $$(grep -c == $<) packages ..."
	@$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@echo "... and midturn."
	@$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(AUDIT)/.ready: tools/audit-requirements.txt
	@$(PYTHON) -m venv $(AUDIT)
	@$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r $<
	@touch $@

# A Matrix server.
$(HOMESERVER)/.ready: tools/homeserver-requirements.txt
	@$(PYTHON) -m venv $(HOMESERVER)
	@$(HOMESERVER)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r $<
	@touch $@

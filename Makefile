# Each target sets up everything that it needs: a virtual environment with pinned packages, and the project in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := .venv-demo
PEERS := .venv-peers
AUDIT := .venv-audit
HOMESERVER := .venv-homeserver
BENCHES := $(filter-out $(patsubst %,benchmarks/%.py,check counted queued turns contestants table scale),$(wildcard benchmarks/*.py))
UV := $(shell command -v uv 2>/dev/null)

# The real parts that tests need: a word here, a target `test-<part>`, and the folder of its tests.
REAL_PARTS := postgres web agents mcp sandbox channels
FOLDER_postgres := tests/stores tests/integrations tests/stories tests/acp_agent tests/torture
FOLDER_web := tests/web/browser
FOLDER_agents := tests/real_agents
FOLDER_mcp := tests/conformance
FOLDER_channels := tests/channels tests/stories/test_every_door.py
FOLDER_sandbox := tests/security tests/cli/test_hostile_child.py
# How tests name the part, where folders of several parts overlap: each is tried once.
NAME_postgres := PostgreSQL
NAME_channels := channels

.PHONY: test-peers oldest-frameworks extras pythons attacks bars stories decisions audit conformance coverage fuzz demo test check test-real hangups torture format pins bench bench-check bench-peers clean docs docs-serve demo-picture pictures cast
.PHONY: parts newest-postgres test-firefox test-postfix $(addprefix test-,$(REAL_PARTS))

demo: $(DEMO)/.ready
	@$(DEMO)/bin/midturn demo

# What `pip install .` installs, pinned: a tenth of what the tests need.
$(DEMO)/.ready: tools/demo-requirements.txt pyproject.toml
	@echo "Setting up $(DEMO) (once): a virtual environment ..."
	@$(PYTHON) -m venv $(DEMO)
	@echo "... $$(grep -c == $<) packages ..."
	@$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@echo "... and midturn."
	@$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

test: $(READY)
	@tools/run_tests $(ARGS)

coverage: $(READY)
	@$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term $(ARGS)

# What needs parts that are not Python: installed with the system's package manager, then tried. There, a skipped test is a failure.
test-real: parts $(addprefix test-,$(REAL_PARTS))

$(addprefix test-,$(REAL_PARTS)): test-%: $(READY)
	@MIDTURN_REAL=$(or $(NAME_$*),1) tools/with_parts tools/run_tests -m real $(FOLDER_$*)

# What needs many packages of others and changes rarely: run by hand before a release.
test-peers: newest-postgres test-firefox test-postfix oldest-frameworks extras

# A homeserver of Matrix, in an environment of its own.
test-channels: $(HOMESERVER)/.ready

# E-mail as providers have it: Postfix with opendkim, before Dovecot. As root, on this machine's loopback alone.
test-postfix: $(READY)
	@tools/install_parts postfix
	@MIDTURN_REAL=Postfix tools/run_tests -m real tests/channels/test_postfix.py

# Web push in Firefox, against a push service of ours on the loopback.
test-firefox: $(READY)
	@tools/install_parts firefox
	@MIDTURN_REAL=Firefox tools/run_tests -m real tests/web/test_push_in_firefox.py

$(HOMESERVER)/.ready: tools/homeserver-requirements.txt
	@$(PYTHON) -m venv $(HOMESERVER)
	@$(HOMESERVER)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	@touch $@

newest-postgres: $(READY)
	@MIDTURN_REAL=1 tools/with_newest_postgres tools/run_tests -m real tests/stores

parts:
	@tools/install_parts

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright
	@$(BIN)/lint-imports
	@PYTHONPATH=tests $(BIN)/python tools/check_examples.py
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory bench-check

# How many checks of the conformance tests of the Model Context Protocol pass, as far as they are about asking people.
conformance: $(READY)
	@PYTHONPATH=tests tools/with_parts $(BIN)/python tests/conformance/scenarios.py

torture: $(READY)
	@tools/install_parts
	@tools/with_parts $(BIN)/python tests/torture/torture.py files --kills $(or $(KILLS),10000) --conversations 200
	@tools/with_parts $(BIN)/python tests/torture/torture.py postgres --kills $(or $(KILLS),500) --crashes 20 --conversations 300
	@tools/with_parts $(BIN)/python tests/torture/torture.py dbos --kills $(or $(KILLS),500) --crashes 20 --conversations 300

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Closes terminals while every kind of prompt waits, in every way, four times: nothing may be recorded (20 minutes).
hangups: $(READY)
	@MIDTURN_HANGUPS=$(or $(TIMES),4) $(BIN)/python -m pytest -n 4 -q tests/terminal/test_vanished_terminal.py

# Strictly: every link leads somewhere, every page is in the navigation, and every public name has its place in the reference.
docs: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Installs the source archive, and the wheel with each extra, in a fresh environment each, and tries it (needs a package index).
extras: $(READY)
	@$(BIN)/python tools/try_extras.py

# The adapters with the oldest versions of their frameworks (needs a package index).
oldest-frameworks: $(READY)
	@tools/try_oldest_frameworks $(ARGS)

# The same tests under every other Python that is here.
pythons: $(READY)
	@tools/try_pythons $(ARGS)

# Plays the demo on a terminal, and draws README's picture of it, which follows the reader's theme.
demo-picture: $(READY)
	@UPDATE_DOCUMENTS=1 $(BIN)/python -m pytest -q -n 0 tests/docs/test_screens.py

# Takes the pictures of the page in Chromium: at 360, 768 and 1440 pixels, light and dark.
pictures: $(READY)
	@$(BIN)/python tools/pictures.py docs/images

# Records a minute of a terminal and a phone, side by side (it needs Chromium, too).
cast: $(READY)
	@$(BIN)/python tools/cast.py docs/cast.svg

docs-serve: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8765

# How many of the attacks on each promise of SECURITY.md work.
attacks: $(READY)
	@tools/with_parts $(BIN)/python tests/attacks.py

# What no single test counts: an emulator, invisible characters, what holds up, paths and races. `make bars SECONDS=60 PROMPTS=100000`.
bars: $(READY)
	@PYTHONPATH=tests SECONDS=$(or $(SECONDS),5) PROMPTS=$(or $(PROMPTS),3000) $(BIN)/python tests/bars.py

# The same stories through every door: the table, and how many outcomes differ.
stories: $(READY)
	@PYTHONPATH=tests tools/with_parts $(BIN)/python -m support.stories.table

# Plays each rule of who decides what through every interface, and prints the table.
decisions: $(READY)
	@PYTHONPATH=tests tools/with_parts $(BIN)/python -m support.decisions.table

# What is installed with midturn: known weaknesses (where that data can be had), dependencies that nothing uses, a bill of materials.
audit: $(AUDIT)/.ready $(READY)
	@tools/audit $(AUDIT)

$(AUDIT)/.ready: tools/audit-requirements.txt
	@$(PYTHON) -m venv $(AUDIT)
	@$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	@touch $@

# Feeds every reader with what nobody thought of: `make fuzz SECONDS=600`, `make fuzz TARGETS=keys`.
fuzz: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r fuzz/requirements.txt \
		|| echo "atheris cannot be had here: hypothesis draws instead."
	@$(BIN)/python -m fuzz --seconds $(or $(SECONDS),60) $(TARGETS)

# These need nothing but the project: a script a subject.
bench: $(READY)
	@for script in $(BENCHES); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Every figure in one table, beside other programs, which get an environment of their own; it is written into the documents.
bench-peers: $(PEERS)/.ready
	@$(PEERS)/bin/python benchmarks/table.py --write docs/performance.md $(ARGS)

$(PEERS)/.ready: requirements.txt pyproject.toml benchmarks/peers.txt
ifdef UV
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(PEERS)
	@VIRTUAL_ENV=$(PEERS) $(UV) pip install --quiet -r benchmarks/peers.txt -e .
else
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt -e .
endif
	@touch $@

# Compares what can be counted (bytes, syncs, files opened, calls, modules that a command imports) with benchmarks/figures.json.
bench-check: $(READY)
	@$(BIN)/python benchmarks/check.py $(ARGS)

# Pins every package with its hashes, without the address of any index.
pins: $(READY)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-emit-index-url --no-header \
		--all-extras --group dev pyproject.toml --output-file requirements.txt
	@printf 'hatchling\neditables\n' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --constraints requirements.txt pyproject.toml - --output-file tools/demo-requirements.txt

$(READY): requirements.txt pyproject.toml
ifdef UV
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --require-hashes -r requirements.txt
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --no-build-isolation -e .
else
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
endif
	@touch $@

clean:
	@rm -rf $(VENV) $(DEMO) $(AUDIT) sbom.json $(PEERS) site .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis .import_linter_cache

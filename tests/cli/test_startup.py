"""Modules that each command loads: none that it does not need."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from midturn import Inquirer, Question, Suspended
from midturn.cli.command_context import StoreAddress, place_at
from midturn.cli.hook_run import run_at_once
from midturn.config.settings import AssistantSettings
from midturn.events.types import Approval, Event, InquiryRequest, Source
from midturn.question.json_value import Limits
from midturn.stores.opening import FileStore
from midturn.terminal.prompts.settings import ScreenSettings
from support.cli import CommandLine

TERMINAL = ("rich", "prompt_toolkit", "wcwidth")
HEAVY = (
    "pydantic",
    "pydantic_ai",
    "anthropic",
    "openai",
    "google.genai",
    "mcp",
    "httpx",
    "starlette",
    "uvicorn",
    "markdown_it",
    "nh3",
)
VALIDATOR = ("jsonschema_rs",)
FILES_ABOUT = ("platformdirs", "tempfile", "shutil", "random")
"""Modules that the library for user directories loads."""
FOR_FEW = ("difflib", "click.shell_completion")
"""Modules for misspelled commands and for shell completion."""

ASKS = {"name": "ask_user", "arguments": {"question": "Sure?", "answer_type": "boolean"}}

LOADED = """
import json, sys
from midturn.cli.main import run
status = run(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump(sorted(sys.modules), file)
sys.exit(status)
"""


def loaded_by(midturn: CommandLine, *arguments: str, cwd: Path | None = None) -> set[str]:
    """Run a command in a new interpreter, in the workspace or in `cwd`; return the modules loaded
    at its end.
    """
    file = midturn.home / "modules.json"
    subprocess.run(
        [sys.executable, "-c", LOADED, str(file), *arguments],
        cwd=cwd or midturn.root,
        env=midturn.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        timeout=120,
        check=True,
    )
    return set(json.loads(file.read_text()))


COMMANDS = (
    "serve",
    "acp",
    "acp run",
    "agui",
    "agui serve",
    "a2a",
    "a2a card",
    "a2a serve",
    "mcp",
    "worker",
    "store check",
    "hook opencode",
    "hook codex-server",
    "models",
    "doctor",
    "query",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_needs_no_extra(midturn: CommandLine, command: str) -> None:
    assert not {
        "acp",
        "mcp",
        "starlette",
        "uvicorn",
        "psycopg",
        "pydantic_ai",
        "apprise",
    } & loaded_by(midturn, *command.split(), "--help")


def test_importing_midturn_loads_no_third_party() -> None:
    code = "import sys, midturn; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {*TERMINAL, *HEAVY, *VALIDATOR, "click", "msgspec", "asyncio", "tomlkit"} & set(
        loaded
    )


@pytest.mark.parametrize(
    "arguments",
    [("--version",), ("--help",), ("inbox",), ("inbox", "--json"), ("conversation", "ls")],
)
def test_listing_loads_no_terminal_model_or_schema_code(
    midturn: CommandLine, arguments: tuple[str, ...]
) -> None:
    assert not {*TERMINAL, *HEAVY, *VALIDATOR, *FOR_FEW} & loaded_by(midturn, *arguments)


def test_listing_a_named_store_loads_no_gettext_and_hashlib(midturn: CommandLine) -> None:
    _begin(midturn.home / "there", asks=False)

    loaded = loaded_by(midturn, "conversation", "ls", "--store", "there", cwd=midturn.home)

    assert {"locale", "hashlib"} & loaded == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("inbox",),
        ("conversation", "ls"),
        ("query", "-m", "scripted:play.json", "hi"),
    ],
)
def test_user_directories_need_no_tempfile(
    midturn: CommandLine, arguments: tuple[str, ...]
) -> None:
    midturn.script()
    midturn.ok("query", "-m", "scripted:play.json", "hi")  # the first run creates a key

    assert {*FILES_ABOUT} & loaded_by(midturn, *arguments) == set()


@pytest.mark.parametrize("arguments", [("--version",), ("--help",)])
def test_help_and_version_load_no_command(midturn: CommandLine, arguments: tuple[str, ...]) -> None:
    loaded = loaded_by(midturn, *arguments)

    assert (
        not {"asyncio", "midturn.stores", "midturn.config.load", "midturn.agent.assembly"} & loaded
    )


def test_a_scripted_query_loads_no_provider_web_or_schema_code(midturn: CommandLine) -> None:
    loaded = loaded_by(midturn, "query", "-m", midturn.script(), "hi")

    assert not {*HEAVY, *VALIDATOR, "tomlkit", "prompt_toolkit"} & loaded


def test_inbox_loads_no_prompt_and_turn_code(midturn: CommandLine) -> None:
    loaded = loaded_by(midturn, "inbox")

    for_turns = {
        "midturn.ports",
        "midturn.question.form",
        "midturn.events.outcome",
        "midturn.turn.inputs",
        "midturn.runtime",
        "asyncio",
    }
    for_others = {
        "midturn.stores.answer_service",
        "subprocess",
    }
    for_translations = {"locale"}
    # no question is open
    for_questions = {"midturn.events.types", "midturn.question.question", "midturn.stores.port"}
    assert (for_turns | for_others | for_translations | for_questions) & loaded == set()


def test_ls_loads_no_answer_and_lock_code(midturn: CommandLine) -> None:
    midturn.run("query", "-m", midturn.script({"calls": [ASKS]}), "--defer", "hi")

    loaded = loaded_by(midturn, "conversation", "ls")

    assert "(1 open question)" in midturn.ok("conversation", "ls").stdout
    for_answers = {
        "midturn.stores.store",
        "midturn.stores.answer_service",
        "midturn.turn.ending",
        "midturn.turn.visit",
    }
    for_those_who_ask = {"midturn.question.question", "midturn.events.prompt", "midturn.exchange"}
    for_holders = {"midturn.stores.locked", "asyncio"}
    for_typed_answers = {"midturn.question.answer", "midturn.question.json_text"}
    assert (for_answers | for_those_who_ask | for_holders | for_typed_answers) & loaded == set()


def test_query_without_calls_loads_no_tool_and_terminal_code(midturn: CommandLine) -> None:
    loaded = loaded_by(midturn, "query", "-m", midturn.script(), "hi")

    for_calls = {
        "midturn.runtime.tool_runs",
        "midturn.tools.fs.declared",
        "midturn.tools.function",
    }
    for_people = {"midturn.terminal.device"}
    assert (for_calls | for_people) & loaded == set()


def test_answer_loads_no_configuration_and_turn_code(midturn: CommandLine) -> None:
    midturn.run("query", "-m", midturn.script({"calls": [ASKS]}), "--defer", "hi")
    (question,) = midturn.ok("inbox", "--json").json

    loaded = loaded_by(midturn, "answer", question["id"], "yes")

    assert midturn.ok("inbox", "--json").json == []
    assert {
        "midturn.config.load",
        "midturn.agent.assembly",
        "midturn.runtime",
        "asyncio",
        "tomllib",
        "shutil",
        "subprocess",
    } & loaded == set()


@pytest.mark.parametrize(
    "kind", [AssistantSettings, Limits, ScreenSettings, Source, Event, InquiryRequest, Approval]
)
def test_types_of_every_start_have_no_string_annotations(kind: type) -> None:
    assert [
        name for name, annotation in kind.__annotations__.items() if isinstance(annotation, str)
    ] == []


AT_ONCE = """
import json, sys
from midturn.cli.hook_run import run_at_once
status = run_at_once(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump([status, *sorted(sys.modules)], file)
"""
CALL = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "c1"}
COPILOT_CALL = {"toolName": "bash", "toolArgs": {"command": "ls"}}
NOTHING_TO_ASK = [
    ("claude", {"hook_event_name": "SessionStart"}),
    ("claude", {"hook_event_name": "PostToolUse", **CALL}),
    ("claude", {"hook_event_name": "UserPromptSubmit"}),
    ("claude --policy defer", {"hook_event_name": "Stop"}),
    ("codex", {"hook_event_name": "PreToolUse", **CALL}),
    ("codex", {"hook_event_name": "Stop"}),
    ("gemini", {"hook_event_name": "AfterAgent"}),
    ("qwen", {"hook_event_name": "PreToolUse", **CALL}),
    ("qwen", {"hook_event_name": "Stop"}),
    ("copilot", COPILOT_CALL),
    ("copilot", {"stopReason": "end_turn"}),
]


@pytest.mark.parametrize(("line", "event"), NOTHING_TO_ASK)
def test_hook_without_a_question_loads_no_prompt_code(
    midturn: CommandLine, line: str, event: dict[str, object]
) -> None:
    """Each tool call of an agent waits for its hook."""
    midturn.ok("query", "-m", midturn.script(), "hi")  # a finished conversation
    file = midturn.home / "modules.json"
    given = json.dumps({"session_id": "s1", "cwd": str(midturn.root), **event})

    ended = subprocess.run(
        [sys.executable, "-c", AT_ONCE, str(file), *line.split()],
        cwd=midturn.root,
        env=midturn.environment,
        input=given,
        capture_output=True,
        timeout=120,
        check=True,
        text=True,
    )

    status, *loaded = json.loads(file.read_text())
    assert (status, ended.stdout, ended.stderr) == (0, "", "")
    # the name of a workspace's directory needs it
    assert ("hashlib" in loaded) is ("midturn.cli.command_context" in loaded)
    unneeded = {
        "click",
        "asyncio",
        "subprocess",
        "tomllib",
        "difflib",
        "midturn.integrations.hooks.installing",
        "midturn.config.load",
        "midturn.agent",
        "midturn.runtime",
        "midturn.stores.opening",
        "midturn.turn",
    }
    assert unneeded & set(loaded) == set()


def _begin(folder: Path, *, asks: bool) -> None:
    """Create a conversation in a directory; its turn is suspended or complete."""

    async def begin() -> None:
        store = FileStore(folder)
        inquirer = Inquirer(store, await store.new("Questions"))
        with suppress(Suspended):
            async with inquirer.call("check", "c1", {}) as call:
                if asks:
                    await call.ask(Question.boolean("sure", "Sure?"))

    asyncio.run(begin())


@pytest.mark.parametrize(
    ("case", "may_be_open", "looks_at_the_files"),
    [
        ("nothing was ever begun", False, False),
        ("a turn is over", False, False),
        ("a question is open", True, True),
        ("the machine was started since, and a turn is over", False, True),
        ("the machine was started since, and a question is open", True, True),
    ],
)
def test_open_turn_check_reads_files_only_if_the_index_is_insufficient(
    tmp_path: Path, *, case: str, may_be_open: bool, looks_at_the_files: bool
) -> None:
    folder = tmp_path / "conversations"
    if "begun" not in case:
        _begin(folder, asks="question" in case)
    if "started" in case:
        for boot in (folder / "open").glob(".boot-*"):
            boot.write_text("another one")
    place = place_at(StoreAddress(folder), None, tmp_path)

    assert place.has_open_turn() is may_be_open
    assert ("files" in vars(place)) is looks_at_the_files
    assert "store" not in vars(place)


def test_open_turn_check_does_not_connect_to_a_database(tmp_path: Path) -> None:
    place = place_at(StoreAddress("postgresql://localhost:1/nowhere"), None, tmp_path)

    assert place.has_open_turn()
    assert "store" not in vars(place)


@pytest.mark.parametrize(
    "line", ["", "claude --wait 1", "gemini --policy defer", "claude --help", "opencode", "nosuch"]
)
def test_other_hook_options_are_parsed_by_the_command(line: str) -> None:
    assert run_at_once(line.split()) is None


def test_help_and_option_name_commands_the_same(midturn: CommandLine) -> None:
    assert midturn.ok("help", "query").stdout == midturn.ok("query", "--help").stdout
    assert midturn.ok("help").stdout == midturn.ok("--help").stdout
    assert "Did you mean `help`?" in midturn.run("hepl").stderr


def test_turn_without_text_is_reported(midturn: CommandLine) -> None:
    finished = midturn.ok("query", "-m", midturn.script({"text": ""}), "Hello")

    assert "midturn: the model ended the turn without a response." in finished.stderr

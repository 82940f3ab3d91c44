"""Tables in the documents match the code. `UPDATE_DOCUMENTS=1` rewrites the generated tables."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import midturn
from midturn.cli.output import ExitStatus
from midturn.events.codec import KINDS
from midturn.events.open_question import PromptKind
from midturn.events.prompt import Prompt
from midturn.events.types import INTERRUPTED, CancelReason
from midturn.models.script_reader import ScriptedReply
from midturn.question.question import Question
from midturn.routing import messages
from midturn.routing.table import TABLE
from midturn.stores.watching import StoreChange
from midturn.terminal.prompts.keys import Command, commands
from midturn.turn.inputs import Effect, Happened, Record
from midturn.turn.state_table import ROWS, STAGE_MEANINGS, STAGES, Move, Stage
from support.command_tables import command_tables
from support.documents import ROOT, assert_section, section
from support.key_tables import built_in_tools, key_tables, names_for_every_tool

DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "midturn"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
STATUSES = {
    ExitStatus.DONE: "success: the turn or the command completed",
    ExitStatus.ERROR: "an error; the turn failed, or stays open because its model is unavailable",
    ExitStatus.USAGE: "usage error or invalid configuration",
    ExitStatus.SUSPENDED: "the turn is suspended and waits for an answer",
    ExitStatus.REFUSED: "the turn completed, but a call was refused because no person was there",
    ExitStatus.TERMINAL_GONE: "the terminal was closed; the turn can be resumed",
    ExitStatus.ENDED_BY_USER: "the user ended the turn",
    ExitStatus.TERMINATED: "a worker was stopped and returned its turns",
}


def first_cells(document: Path, heading: str) -> list[str]:
    """Return the first column of the table whose header begins with `heading`, without
    backquotes.
    """
    text = document.read_text(encoding="utf-8")
    table = text.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [row.split(" | ")[0].strip("|` ") for row in table.splitlines()[2:]]


def every_command() -> Iterator[Command]:
    """Yield the command of each key in every kind of prompt."""
    questions = [
        Question.boolean("q", "Q?", optional=True),
        Question.select("q", "Q?", ["a"], allow_other=True),
        Question.text("q", "Q?"),
    ]
    for kind in get_args(PromptKind):
        for question in questions:
            yield from commands(
                Prompt(question=question, kind=kind, can_go_back=True, may_remember=True), cut=1
            )


def test_every_exit_status_is_explained() -> None:
    assert set(STATUSES) == set(ExitStatus)
    rows = "".join(f"| {status.value} | {meaning} |\n" for status, meaning in STATUSES.items())
    assert_section(
        DOCS / "reference" / "command-line.md",
        "exit statuses",
        f"\n| status | |\n| --- | --- |\n{rows}\n",
    )


def test_every_command_and_option_is_listed() -> None:
    assert_section(DOCS / "reference" / "command-line.md", "commands", f"\n{command_tables()}\n")


def test_every_key_of_the_configuration_is_listed() -> None:
    assert_section(DOCS / "reference" / "configuration.md", "keys", f"\n{key_tables()}\n")
    assert_section(
        DOCS / "reference" / "configuration.md",
        "keys for every tool",
        f"\n{names_for_every_tool()}\n",
    )
    assert_section(
        DOCS / "reference" / "configuration.md", "built-in tools", f"\n{built_in_tools()}\n"
    )


def test_the_routing_table_has_the_rows_of_the_code() -> None:
    assert first_cells(DOCS / "reference" / "routing.md", "#") == [str(row.number) for row in TABLE]


def test_every_kind_of_event_is_described() -> None:
    assert set(first_cells(DOCS / "reference" / "events.md", "`type`")) == KINDS


def test_every_kind_of_change_and_every_field_of_one_is_described() -> None:
    document = DOCS / "howto" / "own-ui.md"
    kinds = get_type_hints(StoreChange)["kind"]
    assert first_cells(document, "`kind`") == list(get_args(kinds))
    rows = (
        "| `kind` |"
        + document.read_text(encoding="utf-8").split("| `kind` |", 1)[1].split("\n\n", 1)[0]
    )
    assert [
        name
        for name in StoreChange.__struct_fields__
        if f"`{name}`" not in rows and name != "conversation"
    ] == []


def test_every_error_is_described_with_its_fields() -> None:
    document = DOCS / "reference" / "errors.md"
    public = {
        name
        for name in dir(midturn)
        if isinstance(found := getattr(midturn, name), type)
        and issubclass(found, midturn.MidturnError)
    }
    assert set(first_cells(document, "error")) == public - {"MidturnError"}


def test_every_reason_of_a_cancellation_is_described() -> None:
    assert set(first_cells(DOCS / "reference" / "events.md", "`cancelled` because of")) == set(
        get_args(CancelReason)
    )


def test_every_key_of_a_scripted_reply_is_described() -> None:
    described = ", ".join(first_cells(DOCS / "reference" / "models.md", "key"))
    assert set(re.findall(r"\w+", described)) == set(ScriptedReply.__struct_fields__)


def test_every_rule_is_in_the_indexed_file() -> None:
    """Files are found by function names, so a renamed or duplicated function fails here."""
    rows = [
        row.split(" | ")
        for row in section(ROOT / "ARCHITECTURE.md", "index").strip().splitlines()[2:]
    ]
    found = [(row[0].removeprefix("| "), re.findall(r"`(\w+)`", row[1])) for row in rows]
    lines = "".join(
        f"| {rule} | {', '.join(f'`{name}`' for name in names)} | `{home(names)}` |\n"
        for rule, names in found
    )
    assert_section(
        ROOT / "ARCHITECTURE.md",
        "index",
        f"\n| where is … | by name | in |\n| --- | --- | --- |\n{lines}\n",
    )


def home(names: list[str]) -> str:
    """Return the one file that defines all the names."""
    text = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    homes = [
        path
        for path in text
        if all(name in text[path] for name in names) and set(names) <= defined(text[path])
    ]
    assert len(homes) == 1, f"{names}: defined in {[str(path) for path in homes]}"
    return homes[0].relative_to(SOURCE).as_posix()


def defined(text: str) -> set[str]:
    """Return the functions, methods, classes and variables that a module defines."""
    tree = ast.parse(text)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    targets = [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    targets += [
        target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
    ]
    return names | {target.id for target in targets if isinstance(target, ast.Name)}


def test_every_package_is_described() -> None:
    packages = {
        path.stem
        for path in SOURCE.iterdir()
        if not path.name.startswith("__") and (path.suffix == ".py" or any(path.glob("*.py")))
    }
    assert set(first_cells(ROOT / "ARCHITECTURE.md", "package")) == packages


def test_every_named_file_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert [file for file in named if not (SOURCE / file).exists()] == []


def test_every_input_and_effect_of_a_turn_is_described() -> None:
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = [
        kind.__name__ for kind in (*get_args(Happened), *get_args(Effect)) if kind is not Record
    ]
    assert [one for one in named if f"`{one}`" not in architecture] == []


def test_stages_of_a_call_match_the_code() -> None:
    """Every stage can also be reached and left."""
    heads = "".join(f" `{move.value}` |" for move in Move)
    rows = "".join(
        f"| {stage.value}: {STAGE_MEANINGS[stage]} |"
        + "".join(f" {ways.get(move, '')} |" for move in Move)
        + "\n"
        for stage, ways in STAGES.items()
    )
    assert_section(
        ROOT / "ARCHITECTURE.md",
        "stages",
        f"\n| stage |{heads}\n| --- |{' --- |' * len(Move)}\n{rows}\n",
    )
    assert (
        {to for ways in STAGES.values() for to in ways.values()} | {Stage.PERMIT}
        == set(STAGES)
        == set(Stage)
    )


def test_every_transition_of_the_state_table_is_shown() -> None:
    heads = (
        "| # | state | input | condition | next | events | effects |\n| --- | --- | --- | --- | ---"
        " | --- | --- |\n"
    )
    rows = "".join(
        f"| | **{title}** | | | | | |\n" + "".join(f"| {' | '.join(row)} |\n" for row in part)
        for title, part in ROWS
    )
    assert_section(ROOT / "ARCHITECTURE.md", "state table", f"\n{heads}{rows}\n")


def test_keys_of_missing_parts_are_documented_as_without_effect() -> None:
    """Implementing such a part removes its keys from that sentence."""
    configuration = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")
    sentence = configuration.split("and have no effect:", 1)[1].split(".\n")[0].split(". ")[0]
    parts = {"mcp": "`providers.mcp", "web": "`web`"}
    assert {part for part, key in parts.items() if key in sentence} == {
        part for part in parts if not (SOURCE / part).exists()
    }


def test_every_contract_is_listed() -> None:
    names = [contract["name"] for contract in PROJECT["tool"]["importlinter"]["contracts"]]
    assert_section(
        ROOT / "ARCHITECTURE.md",
        "contracts",
        "\n" + "".join(f"- {name}\n" for name in names) + "\n",
    )


def test_every_library_has_its_reason() -> None:
    extras: list[str] = [
        needed for extra in PROJECT["project"]["optional-dependencies"].values() for needed in extra
    ]
    used = {
        re.split(r"[\[<>=]", needed)[0] for needed in [*PROJECT["project"]["dependencies"], *extras]
    } - {"midturn"}
    assert set(first_cells(ROOT / "ARCHITECTURE.md", "library")) == used


def test_every_extra_is_offered() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [
        extra for extra in PROJECT["project"]["optional-dependencies"] if f"`{extra}`" not in readme
    ] == []


def test_the_list_of_make_targets_is_complete() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    explained = re.findall(r"^# (.+)\n([a-z-]+):", makefile, re.MULTILINE)
    texts = {target: text for text, target in explained}
    assert phony
    assert sorted(texts) == sorted(phony[1].split())
    rows = "".join(
        f"| `make {target}` | {texts[target].replace('|', chr(92) + '|')} |\n"
        for target in phony[1].split()
    )
    assert_section(
        ROOT / "CONTRIBUTING.md", "make targets", f"\n| target | |\n| --- | --- |\n{rows}\n"
    )


def test_the_newest_release_of_the_changelog_is_this_version() -> None:
    headings = re.findall(
        r"^## (\S+)( \(unreleased\))?$",
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    released = [version for version, is_unreleased in headings if not is_unreleased]
    assert released[0] == PROJECT["project"]["version"]
    assert sum(bool(is_unreleased) for _, is_unreleased in headings[1:]) == 0, (
        "only the first section can be unreleased"
    )


def test_every_key_of_a_prompt_is_explained() -> None:
    assert set(first_cells(DOCS / "reference" / "command-line.md", "key")) >= {
        command.key for command in every_command()
    }


def test_every_sentence_to_a_model_is_listed() -> None:
    """Each function that makes such a sentence is called with its parameter names as values."""
    constants = {
        "a person ended the turn at this call's question": messages.INPUT_CANCELLED,
        "the other calls of a turn that a person ended": messages.TURN_ENDED,
        "a call of an earlier turn that has no result": INTERRUPTED,
        "after a rejection by a model": messages.RETRY_OR_REVIEW,
    }
    rows = [f"| {case} | `{said}` |\n" for case, said in constants.items()]
    for name, say in vars(messages).items():
        if (
            callable(say)
            and getattr(say, "__module__", "") == messages.__name__
            and not name.startswith("_")
        ):
            case = (
                " ".join((say.__doc__ or name).partition("\n\n")[0].split())
                .removeprefix("Say ")
                .removeprefix("that ")
                .removesuffix(".")
            )
            said = [
                f"`` {line} ``" if "`" in line else f"`{line}`"
                for line in _sentence_of(cast("Callable[..., str]", say)).split("\n")
                if line
            ]
            if name not in _FOR_PEOPLE:
                rows.append(f"| {case[0].lower()}{case[1:]} | {'<br>'.join(said)} |\n")
    assert_section(
        DOCS / "reference" / "routing.md",
        "messages",
        f"\n| case | exact text |\n| --- | --- |\n{''.join(rows)}\n",
    )


_FOR_PEOPLE = ("recommended_rejection",)  # a heading for people


def _sentence_of(say: Callable[..., str]) -> str:
    """Call a function that makes a sentence; join the sentences of several cases."""
    given: dict[str, Any] = {name: f"<{name}>" for name in inspect.signature(say).parameters}
    given |= {"known": ["<tools>"]} if "known" in given else {}
    match say.__name__:
        case "refusal":
            reasons = ("assistant_routing_denied", "invalid_static_answer", "no_prompt_backend")
            return "\n".join(say("<tool>", reason, "<id>") for reason in reasons)
        case "limit_exceeded":
            return "\n".join(say("<tool>", limit, "<n>") for limit in get_args(messages.LimitName))
        case "arguments_edited" | "edited_arguments_failed":
            return say(**given).replace('"<arguments>"', "<arguments>")
        case _:
            return say(**given)


def test_texts_for_the_model_are_quoted_exactly() -> None:
    routing = (DOCS / "reference" / "routing.md").read_text(encoding="utf-8")
    said = (
        messages.refusal("<tool>", "no_default", "<id>"),
        messages.refusal("<tool>", "assistant_routing_denied", "<id>"),
        messages.refusal("<tool>", "invalid_static_answer", "<id>"),
        messages.assistant_failed("<tool>", "<text>", "<error>"),
        messages.prompt_failed("<tool>", "<text>", "<error>"),
        messages.limit_exceeded("<tool>", "repeats", 3).replace(
            "3 identical questions (limits.repeats)", "<n> <what> (limits.<limit>)"
        ),
        messages.INPUT_CANCELLED,
        messages.TURN_ENDED,
    )
    assert [sentence for sentence in said if f"`{sentence}`" not in routing] == []

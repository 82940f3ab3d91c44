"""Tables in the documents say what the code says. `UPDATE_DOCUMENTS=1` writes the generated ones anew."""

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
from midturn.turn.state import QUESTIONS, STAGES, Move, Stage
from midturn.turn.step import Effect, Happened, Record
from support.command_tables import command_tables
from support.documents import ROOT, assert_section, section
from support.key_tables import built_in_tools, key_tables, names_for_every_tool

DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "midturn"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
STATUSES = {
    ExitStatus.DONE: "the turn completed, or the command did what it was asked",
    ExitStatus.ERROR: "an error; a turn that failed, or was left open because its model is down",
    ExitStatus.USAGE: "wrong usage, or a wrong configuration",
    ExitStatus.SUSPENDED: "the turn is suspended, and waits for an answer",
    ExitStatus.REFUSED: "the turn completed, but a tool call was refused, because no human was there",
    ExitStatus.TERMINAL_GONE: "the terminal went away: nothing was recorded, and the turn waits to be resumed",
    ExitStatus.ENDED_BY_USER: "the user ended the turn",
    ExitStatus.TERMINATED: "a worker was told to stop, and has handed its turns back",
}
TARGETS = {
    "demo": "plays a turn in which tools ask you things",
    "demo-picture": "draws README's picture of the demo anew, from the demo itself",
    "pictures": "takes the pictures of the page anew, in Chromium",
    "cast": "records a terminal and a phone side by side anew, in Chromium",
    "test": "runs every test",
    "coverage": "runs every test, a fifth slower, and says what they cover",
    "fuzz": "throws made-up input at what reads input, with an engine that looks for new ways through the code",
    "audit": "lists what is installed (CycloneDX), what of it nothing uses, and, where that data can be had, its known weaknesses",
    "attacks": "tries the attacks on each promise of `SECURITY.md`, and counts those that work",
    "bars": "counts what no single test counts: an emulator, invisible characters, what holds a program up, paths and races",
    "decisions": "plays each rule of who decides through every interface, and prints the table of `docs/explanation/doors.md`",
    "stories": "plays the same stories through every door, and prints the table of `docs/explanation/doors.md` with what differs",
    "conformance": "counts the checks of the Model Context Protocol's own tests about asking people that pass, on both sides, and names "
    "those that do not apply, with the reason",
    "check": "looks at style, types (of what documents show, too) and imports",
    "test-real": "installs databases, browsers and agents with the system's package manager, and runs the tests that need them",
    "test-peers": "runs, before a release, the tests that need many foreign packages: the newest PostgreSQL, Firefox, Postfix, the oldest "
    "frameworks, every extra",
    "hangups": "closes terminals while every kind of prompt waits, in every way, and looks at what is recorded",
    "torture": "kills workers by the thousand, and finds out from the logs whether anything was lost",
    "format": "formats the code",
    "docs": "builds the documents as a site, and refuses a link that leads nowhere; `make check` does it, too",
    "docs-serve": "shows the site while you write",
    "extras": "installs the source archive, and the wheel with each extra, in a fresh environment each, and tries it",
    "oldest-frameworks": "runs the tests of the adapters with the oldest versions of the frameworks",
    "pythons": "runs tests under the other versions of Python that are here",
    "bench": "measures what questions cost, and how long the start takes",
    "bench-check": "compares what can be counted (bytes, syncs, files opened, calls, modules imported) with `benchmarks/figures.json`; "
    "`make check` does it, too",
    "bench-peers": "measures the same question with other frameworks, where they are installed",
    "pins": "writes the pinned versions anew",
    "clean": "removes what the other targets made",
}


def first_cells(document: Path, heading: str) -> list[str]:
    """Return the first column of the table whose heading row begins so, without back quotes."""
    text = document.read_text(encoding="utf-8")
    table = text.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [row.split(" | ")[0].strip("|` ") for row in table.splitlines()[2:]]


def every_command() -> Iterator[Command]:
    """Yield what every key does, at every kind of prompt."""
    questions = [Question.boolean("q", "Q?", optional=True), Question.select("q", "Q?", ["a"], allow_other=True), Question.text("q", "Q?")]
    for kind in get_args(PromptKind):
        for question in questions:
            yield from commands(Prompt(question=question, kind=kind, can_go_back=True, may_remember=True), cut=1)


def test_every_exit_status_is_explained() -> None:
    assert set(STATUSES) == set(ExitStatus)
    rows = "".join(f"| {status.value} | {meaning} |\n" for status, meaning in STATUSES.items())
    assert_section(DOCS / "command-line.md", "exit statuses", f"\n| status | |\n| --- | --- |\n{rows}\n")


def test_every_command_and_option_is_listed() -> None:
    assert_section(DOCS / "command-line.md", "commands", f"\n{command_tables()}\n")


def test_every_key_of_the_configuration_is_listed() -> None:
    assert_section(DOCS / "configuration.md", "keys", f"\n{key_tables()}\n")
    assert_section(DOCS / "configuration.md", "keys for every tool", f"\n{names_for_every_tool()}\n")
    assert_section(DOCS / "configuration.md", "built-in tools", f"\n{built_in_tools()}\n")


def test_the_routing_table_has_the_rows_of_the_code() -> None:
    assert first_cells(DOCS / "routing.md", "#") == [str(row.number) for row in TABLE]


def test_every_kind_of_event_is_described() -> None:
    assert set(first_cells(DOCS / "recording.md", "`type`")) == KINDS


def test_every_kind_of_change_and_every_field_of_one_is_described() -> None:
    document = DOCS / "library" / "watching.md"
    kinds = get_type_hints(StoreChange)["kind"]
    assert first_cells(document, "`kind`") == list(get_args(kinds))
    rows = "| `kind` |" + document.read_text(encoding="utf-8").split("| `kind` |", 1)[1].split("\n\n", 1)[0]
    assert [name for name in StoreChange.__struct_fields__ if f"`{name}`" not in rows and name != "conversation"] == []


def test_every_error_is_described_with_its_fields() -> None:
    document = DOCS / "library" / "errors.md"
    public = {
        name for name in dir(midturn) if isinstance(found := getattr(midturn, name), type) and issubclass(found, midturn.MidturnError)
    }
    assert set(first_cells(document, "error")) == public - {"MidturnError"}


def test_every_reason_of_a_cancellation_is_described() -> None:
    assert set(first_cells(DOCS / "recording.md", "`cancelled` because of")) == set(get_args(CancelReason))


def test_every_key_of_a_scripted_reply_is_described() -> None:
    described = ", ".join(first_cells(DOCS / "scripted-model.md", "key"))
    assert set(re.findall(r"\w+", described)) == set(ScriptedReply.__struct_fields__)


def test_every_rule_is_where_the_index_says() -> None:
    """The files are found by the names: a function that moves takes its row along, one that is renamed or doubled fails here."""
    rows = [row.split(" | ") for row in section(ROOT / "ARCHITECTURE.md", "index").strip().splitlines()[2:]]
    found = [(row[0].removeprefix("| "), re.findall(r"`(\w+)`", row[1])) for row in rows]
    lines = "".join(f"| {rule} | {', '.join(f'`{name}`' for name in names)} | `{home(names)}` |\n" for rule, names in found)
    assert_section(ROOT / "ARCHITECTURE.md", "index", f"\n| where is … | by name | in |\n| --- | --- | --- |\n{lines}\n")


def home(names: list[str]) -> str:
    """Return the one file that defines all the names."""
    text = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    homes = [path for path in text if all(name in text[path] for name in names) and set(names) <= defined(text[path])]
    assert len(homes) == 1, f"{names}: defined in {[str(path) for path in homes]}"
    return homes[0].relative_to(SOURCE).as_posix()


def defined(text: str) -> set[str]:
    """Return what a module defines: functions, methods, classes and names of its own."""
    tree = ast.parse(text)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    targets = [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    targets += [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return names | {target.id for target in targets if isinstance(target, ast.Name)}


def test_every_package_is_described() -> None:
    packages = {
        path.stem for path in SOURCE.iterdir() if not path.name.startswith("__") and (path.suffix == ".py" or any(path.glob("*.py")))
    }
    assert set(first_cells(ROOT / "ARCHITECTURE.md", "package")) == packages


def test_every_file_that_is_named_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert [file for file in named if not (SOURCE / file).exists()] == []


def test_what_happens_to_a_turn_and_what_it_wants_is_described() -> None:
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = [kind.__name__ for kind in (*get_args(Happened), *get_args(Effect)) if kind is not Record]
    assert [one for one in named if f"`{one}`" not in architecture] == []


def test_the_stages_of_a_call_are_those_of_the_code() -> None:
    """And every stage can be reached, and left."""
    heads = "".join(f" `{move.value}` |" for move in Move)
    rows = "".join(
        f"| {stage.value}: {QUESTIONS[stage]} |" + "".join(f" {ways.get(move, '')} |" for move in Move) + "\n"
        for stage, ways in STAGES.items()
    )
    assert_section(ROOT / "ARCHITECTURE.md", "stages", f"\n| stage |{heads}\n| --- |{' --- |' * len(Move)}\n{rows}\n")
    assert {to for ways in STAGES.values() for to in ways.values()} | {Stage.PERMIT} == set(STAGES) == set(Stage)


def test_keys_of_parts_that_are_not_there_are_said_to_have_no_effect() -> None:
    """A part that comes takes its keys out of that sentence."""
    configuration = (DOCS / "configuration.md").read_text(encoding="utf-8")
    sentence = configuration.split("and have no effect:", 1)[1].split(".\n")[0].split(". ")[0]
    parts = {"mcp": "`providers.mcp", "web": "`web`"}
    assert {part for part, key in parts.items() if key in sentence} == {part for part in parts if not (SOURCE / part).exists()}


def test_every_contract_is_listed() -> None:
    names = [contract["name"] for contract in PROJECT["tool"]["importlinter"]["contracts"]]
    assert_section(ROOT / "ARCHITECTURE.md", "contracts", "\n" + "".join(f"- {name}\n" for name in names) + "\n")


def test_every_library_has_its_reason() -> None:
    extras: list[str] = [needed for extra in PROJECT["project"]["optional-dependencies"].values() for needed in extra]
    used = {re.split(r"[\[<>=]", needed)[0] for needed in [*PROJECT["project"]["dependencies"], *extras]} - {"midturn"}
    assert set(first_cells(ROOT / "ARCHITECTURE.md", "library")) == used


def test_every_extra_is_offered() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [extra for extra in PROJECT["project"]["optional-dependencies"] if f"`{extra}`" not in readme] == []


def test_every_target_of_make_is_explained() -> None:
    targets = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert targets
    assert set(targets[1].split()) == set(TARGETS)
    rows = "".join(f"| `make {target}` | {does} |\n" for target, does in TARGETS.items())
    assert_section(ROOT / "CONTRIBUTING.md", "make targets", f"\n| target | |\n| --- | --- |\n{rows}\n")


def test_the_newest_release_of_the_changelog_is_this_version() -> None:
    headings = re.findall(r"^## (\S+)( \(unreleased\))?$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    released = [version for version, is_unreleased in headings if not is_unreleased]
    assert released[0] == PROJECT["project"]["version"]
    assert sum(bool(is_unreleased) for _, is_unreleased in headings[1:]) == 0, "only the first section can be unreleased"


def test_every_key_of_a_prompt_is_explained() -> None:
    assert set(first_cells(DOCS / "command-line.md", "key")) >= {command.key for command in every_command()}


def test_every_sentence_to_a_model_is_listed() -> None:
    """Each function that makes one is called, with the names of its parameters in the place of what belongs to the case."""
    constants = {
        "a person ended the turn at this call's question": messages.INPUT_CANCELLED,
        "the other calls of a turn that a person ended": messages.TURN_ENDED,
        "a call of an earlier turn that has no result": INTERRUPTED,
        "after a rejection by a model": messages.RETRY_OR_REVIEW,
    }
    rows = [f"| {case} | `{said}` |\n" for case, said in constants.items()]
    for name, say in vars(messages).items():
        if callable(say) and getattr(say, "__module__", "") == messages.__name__ and not name.startswith("_"):
            case = (say.__doc__ or name).splitlines()[0].removeprefix("Say ").removeprefix("that ").removesuffix(".")
            said = [f"`` {line} ``" if "`" in line else f"`{line}`" for line in _said(cast("Callable[..., str]", say)).split("\n") if line]
            if name not in _FOR_PEOPLE:
                rows.append(f"| {case[0].lower()}{case[1:]} | {'<br>'.join(said)} |\n")
    assert_section(DOCS / "messages.md", "messages", f"\n| what it says | to the letter |\n| --- | --- |\n{''.join(rows)}\n")


_FOR_PEOPLE = ("recommended_rejection",)  # it heads what a person is shown


def _said(say: Callable[..., str]) -> str:
    """Call a function that makes a sentence; of several by case, join them."""
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


def test_what_a_model_reads_is_quoted_to_the_letter() -> None:
    routing = (DOCS / "routing.md").read_text(encoding="utf-8")
    said = (
        messages.refusal("<tool>", "no_default", "<id>"),
        messages.refusal("<tool>", "assistant_routing_denied", "<id>"),
        messages.refusal("<tool>", "invalid_static_answer", "<id>"),
        messages.assistant_failed("<tool>", "<text>", "<error>"),
        messages.prompt_failed("<tool>", "<text>", "<error>"),
        messages.limit_exceeded("<tool>", "repeats", 3).replace("3 identical questions (limits.repeats)", "<n> <what> (limits.<limit>)"),
        messages.INPUT_CANCELLED,
        messages.TURN_ENDED,
    )
    assert [sentence for sentence in said if f"`{sentence}`" not in routing] == []

"""Tables in the documents say what the code says. `UPDATE_DOCUMENTS=1` writes the generated ones anew."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

from midturn.cli.exit_status import ExitStatus
from midturn.core.events import CancelReason
from midturn.core.events.codec import KINDS
from midturn.core.routing import messages
from midturn.core.routing.table import TABLE
from midturn.models.script import ScriptedReply
from support.command_tables import command_tables
from support.documents import ROOT, assert_section
from support.key_tables import built_in_tools, key_tables, names_for_every_tool

DOCS = ROOT / "docs"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
STATUSES = {
    ExitStatus.DONE: "the turn completed, or the command did what it was asked",
    ExitStatus.ERROR: "an error; a turn that failed, or was left open because its model is down",
    ExitStatus.USAGE: "wrong usage, or a wrong configuration",
    ExitStatus.SUSPENDED: "the turn is suspended, and waits for an answer",
    ExitStatus.REFUSED: "the turn completed, but a tool call was refused, because no human was there",
    ExitStatus.ENDED_BY_USER: "the user ended the turn",
}


def first_cells(document: Path, heading: str) -> list[str]:
    """Return the first column of the table whose heading row begins so, without back quotes."""
    text = document.read_text(encoding="utf-8")
    table = text.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [row.split(" | ")[0].strip("|` ") for row in table.splitlines()[2:]]


def test_every_exit_status_is_explained() -> None:
    assert set(STATUSES) == set(ExitStatus)
    rows = "".join(f"| {status.value} | {meaning} |\n" for status, meaning in STATUSES.items())
    for document in ("routing.md", "command-line.md"):
        assert_section(DOCS / document, "exit statuses", f"\n| status | |\n| --- | --- |\n{rows}\n")


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


def test_every_reason_of_a_cancellation_is_described() -> None:
    assert set(first_cells(DOCS / "recording.md", "`cancelled` because of")) == set(get_args(CancelReason))


def test_every_key_of_a_scripted_reply_is_described() -> None:
    described = ", ".join(first_cells(DOCS / "scripted-model.md", "key"))
    assert set(re.findall(r"\w+", described)) == set(ScriptedReply.__struct_fields__)


def test_what_a_model_reads_is_quoted_to_the_letter() -> None:
    routing = (DOCS / "routing.md").read_text(encoding="utf-8")
    said = (
        messages.refusal("<tool>", "no_default", "<id>"),
        messages.refusal("<tool>", "assistant_routing_denied", "<id>"),
        messages.refusal("<tool>", "invalid_static_answer", "<id>"),
        messages.assistant_failed("<tool>", "<text>", "<error>"),
        messages.prompt_failed("<tool>", "<text>", "<error>"),
        messages.limit_exceeded("<tool>", 3, "<what>").replace("3", "<n>"),
        messages.INPUT_CANCELLED,
        messages.TURN_ENDED,
    )
    assert [sentence for sentence in said if f"`{sentence}`" not in routing] == []

"""What a turn displays, and on which stream."""

from __future__ import annotations

import asyncio
import errno
import io
import re
import subprocess
import sys

import pytest

from midturn.events.types import ToolCall
from midturn.ports import (
    ConsultFinished,
    ConsultStarted,
    Happening,
    ModelFinished,
    ModelStarted,
    Notice,
    ReasoningShown,
    TextShown,
    ToolBegan,
    ToolEnded,
)
from midturn.routing.messages import INPUT_CANCELLED, TURN_ENDED
from midturn.terminal.output import OutputSettings, TerminalDisplay
from midturn.terminal.output_pair import Gate
from midturn.terminal.status_output import FRAMES
from support.waiting import until

CALL = ToolCall("ev", "call", "deploy", {})
SGR = re.compile(r"\x1b\[[0-9;]*m")


class Stream(io.StringIO):
    """A stream that may be a terminal."""

    encoding = "utf-8"

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._terminal


class RecordedDisplay:
    """A display with two streams."""

    def __init__(
        self,
        *,
        terminal: bool = True,
        gate: Gate | None = None,
        settings: OutputSettings | None = None,
    ) -> None:
        self.out, self.err = Stream(terminal=terminal), Stream(terminal=terminal)
        self.gate = gate or Gate()
        self.display = TerminalDisplay(
            settings or OutputSettings(mode="rich"), self.gate, streams=(self.out, self.err)
        )

    @property
    def frames(self) -> int:
        """Return how often the row was drawn."""
        return sum(self.err.getvalue().count(frame) for frame in FRAMES)

    def show(self, *happenings: Happening) -> RecordedDisplay:
        """Show the happenings, and end the turn."""
        for happening in happenings:
            self.display.show(happening)
        self.display.end()
        return self


async def until_a_row_would_be_drawn() -> None:
    """Wait until a second display has drawn its row three times.

    A row on the first display would also be drawn by then.
    """
    another = RecordedDisplay()
    another.display.show(ModelStarted())
    await until(lambda: another.frames > 2)
    another.display.end()


def test_a_pipe_gets_the_assistants_text_unchanged() -> None:
    text = "# Title \x1b[31m\n│ as it is"

    watched = RecordedDisplay(terminal=False).show(*map(TextShown, text))

    assert watched.out.getvalue() == f"{text}\n"


def test_a_terminal_gets_markdown_block_by_block() -> None:
    watched = RecordedDisplay()
    watched.display.show(TextShown("# Title\n\nsome **words**"))
    assert SGR.sub("", watched.out.getvalue()) == "Title\n"

    watched.show(TextShown(" more"))
    assert SGR.sub("", watched.out.getvalue()) == "Title\n\nsome words more\n"
    assert "\x1b[1m" in watched.out.getvalue()


def test_plain_mode_prints_the_source_without_escapes() -> None:
    watched = RecordedDisplay(settings=OutputSettings(mode="plain")).show(
        TextShown("**bold** \x1b"), TextShown("[31m\nnext")
    )

    assert watched.out.getvalue() == "**bold** ⟨U+001B⟩[31m\nnext\n"


@pytest.mark.parametrize(("mode", "gutter"), [("rich", "│"), ("plain", "|")])
@pytest.mark.parametrize("cut", [1, 3, 100])
def test_no_row_imitates_a_row_of_a_prompt(mode: str, gutter: str, cut: int) -> None:
    text = f"{gutter} one\n\n{gutter} two"
    watched = RecordedDisplay(settings=OutputSettings(mode="rich" if mode == "rich" else "plain"))

    watched.show(*(TextShown(text[at : at + cut]) for at in range(0, len(text), cut)))

    assert [row[:2] for row in watched.out.getvalue().split("\n") if row.strip()] == [
        f" {gutter}"
    ] * 2


def test_tools_and_notices_go_to_stderr() -> None:
    watched = RecordedDisplay(terminal=False).show(
        ToolBegan(CALL),
        ToolBegan(CALL, again=True),
        ToolEnded(CALL, "no such\nhost", is_error=True),
        Notice("tried\x1b again"),
    )

    assert watched.out.getvalue() == ""
    assert (
        watched.err.getvalue()
        == "· deploy\n· deploy failed: no such\nmidturn: tried⟨U+001B⟩ again\n"
    )


@pytest.mark.parametrize("told", [INPUT_CANCELLED, TURN_ENDED])
def test_a_call_that_ended_with_its_turn_is_not_shown_as_failed(told: str) -> None:
    watched = RecordedDisplay().show(ToolBegan(CALL), ToolEnded(CALL, told, is_error=True))

    assert (
        SGR.sub("", watched.err.getvalue())
        == "· deploy\n· deploy: not finished: the turn was ended\n"
    )


def test_hidden_tools_are_not_shown() -> None:
    settings = OutputSettings(hidden=frozenset({"deploy"}))

    watched = RecordedDisplay(terminal=False, settings=settings).show(
        ToolBegan(CALL), ToolEnded(CALL, "x", is_error=True)
    )

    assert watched.err.getvalue() == ""


ASK = ToolCall("ev", "call", "ask_user", {"question": "One\ntwo", "options": []})
WRONG = """\
ask_user: nothing was asked, because the arguments are wrong. Correct them and call it again.
- /question: the text has 2 lines, but must have one. Put multi-line text in `context`.
- /options: 0 options are given; the number must be 1 to 200."""
ASKED = OutputSettings(hidden=frozenset({"ask_user"}))


def test_a_refused_ask_is_shown_even_if_asks_are_hidden() -> None:
    watched = RecordedDisplay(terminal=False, settings=ASKED).show(
        TextShown("A form."), ToolBegan(ASK), ToolEnded(ASK, WRONG, is_error=True)
    )

    assert watched.out.getvalue() == "A form.\n"
    assert (
        watched.err.getvalue()
        == "· ask_user One⏎ two failed: nothing was asked: /question: the text has 2 lines, but"
        " must have one. Put multi-line text in `context`. (and 1 more)\n"
    )


def test_an_ask_without_a_responder_is_shown() -> None:
    told = (
        "ask_user cannot run because no interactive terminal is available. Do not retry this tool"
        " call in this turn."
    )
    watched = RecordedDisplay(terminal=False, settings=ASKED).show(
        ToolBegan(ASK), ToolEnded(ASK, told, is_error=True)
    )

    assert watched.err.getvalue() == f"· ask_user One⏎ two failed: {told}\n"


@pytest.mark.parametrize("told", [INPUT_CANCELLED, TURN_ENDED])
def test_an_ask_ended_by_the_person_is_not_shown(told: str) -> None:
    watched = RecordedDisplay(terminal=False, settings=ASKED).show(
        ToolBegan(ASK), ToolEnded(ASK, told, is_error=True)
    )

    assert watched.err.getvalue() == ""


def test_an_answered_ask_is_not_shown() -> None:
    assert (
        RecordedDisplay(terminal=False, settings=ASKED)
        .show(ToolBegan(ASK), ToolEnded(ASK, "{}", is_error=False))
        .err.getvalue()
        == ""
    )


def test_a_line_is_finished_before_a_tool_is_shown() -> None:
    watched = RecordedDisplay(settings=OutputSettings(mode="plain"))
    watched.show(TextShown("I will deploy"), ModelFinished(), ToolBegan(CALL))

    assert watched.out.getvalue() == "I will deploy\n"


def test_reasoning_is_shown_dim_on_stderr_if_enabled() -> None:
    happened = (ReasoningShown("hm\x1b[1m"), TextShown("Yes."), ModelFinished())

    assert RecordedDisplay().show(*happened).err.getvalue() == ""
    watched = RecordedDisplay(settings=OutputSettings(mode="rich", reasoning=True)).show(*happened)
    assert watched.err.getvalue() == "\x1b[90m~ hm⟨U+001B⟩[1m\x1b[0m\n"
    plain = RecordedDisplay(terminal=False, settings=OutputSettings(reasoning=True)).show(*happened)
    assert plain.err.getvalue() == "hm⟨U+001B⟩[1m\n"


def test_everything_is_held_while_a_prompt_is_open() -> None:
    gate = Gate()
    watched = RecordedDisplay(gate=gate)

    with gate.shut():
        watched.show(TextShown("words"), ToolBegan(CALL))
        assert watched.out.getvalue() + watched.err.getvalue() == ""

    assert SGR.sub("", watched.out.getvalue()) == "\nwords\n"
    assert SGR.sub("", watched.err.getvalue()) == "\n· deploy\n"


def test_an_empty_row_separates_a_prompt_from_the_assistants_text() -> None:
    watched = RecordedDisplay()
    with watched.gate.shut():
        watched.out.write("Which database? backup\n")

    watched.show(TextShown("Thanks."))

    assert SGR.sub("", watched.out.getvalue()) == "Which database? backup\n\nThanks.\n"


def test_a_tool_row_directly_follows_its_prompt() -> None:
    watched = RecordedDisplay()
    watched.display.show(TextShown("I deploy it."))
    watched.display.show(ModelFinished())
    with watched.gate.shut():
        pass

    watched.show(ToolBegan(CALL))

    assert not watched.err.getvalue().startswith("\n")


def test_the_status_row_counts_seconds_and_disappears() -> None:
    watched = RecordedDisplay()

    async def wait() -> None:
        watched.display.show(ModelStarted())
        await until(lambda: re.search(f"\r[{FRAMES}] thinking \\d s", watched.err.getvalue()))

    asyncio.run(wait())

    watched.show(TextShown("done"))
    assert watched.err.getvalue().endswith(" \r")


def test_in_a_file_two_messages_are_separated_by_an_empty_line() -> None:
    watched = RecordedDisplay(terminal=False)
    watched.show(
        TextShown("One"),
        TextShown(" thing."),
        ModelFinished(),
        ToolBegan(CALL),
        TextShown("Done."),
        ModelFinished(),
    )

    assert watched.out.getvalue() == "One thing.\n\nDone.\n"


LOADED_MEANWHILE = """
import asyncio, io, sys
from midturn.ports import ModelStarted
from midturn.terminal.output_pair import Gate
from midturn.terminal.output import OutputSettings, TerminalDisplay

class Terminal(io.StringIO):
    encoding = "utf-8"
    def isatty(self):
        return True

async def think():
    out = Terminal()
    display = TerminalDisplay(OutputSettings(mode="rich"), Gate(), streams=(out, Terminal()))
    display.show(ModelStarted())
    assert "midturn.terminal.markdown.flow" not in sys.modules
    async with asyncio.timeout(120):
        while "midturn.terminal.markdown.flow" not in sys.modules:
            await asyncio.sleep(0.01)
    display.end()
    print(repr(out.getvalue()))

asyncio.run(think())
"""


def test_drawing_code_is_loaded_while_the_model_thinks() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED_MEANWHILE],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (ended.stdout, ended.stderr) == ("''\n", "")


def test_the_status_row_names_the_model_of_a_side_request() -> None:
    watched = RecordedDisplay()

    async def wait() -> None:
        watched.display.show(ToolBegan(CALL))
        watched.display.show(ConsultStarted("q1", "anthropic/claude-haiku-4-5"))
        await until(lambda: "asking anthropic/claude-haiku-4-5" in watched.err.getvalue())
        watched.display.show(ConsultFinished("q1"))
        watched.display.end()

    asyncio.run(wait())


def test_the_status_row_is_removed_before_a_prompt() -> None:
    gate = Gate()
    watched = RecordedDisplay(gate=gate)

    async def wait() -> None:
        watched.display.show(ModelStarted())
        await until(lambda: watched.frames)
        with gate.shut():
            assert watched.err.getvalue().endswith(" \r")
            before = watched.err.getvalue()
            await until_a_row_would_be_drawn()
            assert watched.err.getvalue() == before

    asyncio.run(wait())


def test_without_a_terminal_there_is_no_status_row() -> None:
    watched = RecordedDisplay(terminal=False)

    async def wait() -> None:
        watched.display.show(ModelStarted())
        await until_a_row_would_be_drawn()

    asyncio.run(wait())
    assert watched.err.getvalue() == ""


def test_the_turn_continues_when_the_reader_of_the_pipe_is_gone() -> None:
    told: list[str] = []

    class Closed(Stream):
        def write(self, text: str, /) -> int:
            """Fail like a pipe without a reader."""
            raise BrokenPipeError(errno.EPIPE, f"Nobody reads {text!r}")

    streams = (Closed(terminal=False), Stream(terminal=False))
    display = TerminalDisplay(nobody_reads=lambda: told.append("gone"), streams=streams)
    display.show(TextShown("words"))
    display.show(ToolBegan(CALL))

    assert told[0] == "gone"
    assert streams[1].getvalue() == "· deploy\n"


def test_a_full_disk_is_an_error() -> None:
    class Full(Stream):
        def write(self, text: str, /) -> int:
            """Fail like a file on a full disk."""
            raise OSError(errno.ENOSPC, f"No space left for {text!r}")

    display = TerminalDisplay(streams=(Full(terminal=False), Stream(terminal=False)))

    with pytest.raises(OSError, match="No space left"):
        display.show(TextShown("words"))

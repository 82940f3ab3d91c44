"""What a turn shows, and where."""

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

    encoding = "utf-8"  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleVariableOverride, reportAssignmentType]  # a StringIO has none

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        """Say what it is."""
        return self._terminal


class Watched:
    """A display on two streams."""

    def __init__(self, *, terminal: bool = True, gate: Gate | None = None, settings: OutputSettings | None = None) -> None:
        self.out, self.err = Stream(terminal=terminal), Stream(terminal=terminal)
        self.gate = gate or Gate()
        self.display = TerminalDisplay(settings or OutputSettings(mode="rich"), self.gate, streams=(self.out, self.err))

    @property
    def frames(self) -> int:
        """How often the row was drawn."""
        return sum(self.err.getvalue().count(frame) for frame in FRAMES)

    def show(self, *happenings: Happening) -> Watched:
        """Let things happen, and the turn end."""
        for happening in happenings:
            self.display.show(happening)
        self.display.end()
        return self


async def as_long_as_a_row_takes() -> None:
    """Return when another terminal, on which a model thinks just as long, has shown its row three times."""
    another = Watched()
    another.display.show(ModelStarted())
    await until(lambda: another.frames > 2)
    another.display.end()


def test_a_pipe_gets_the_assistants_words_untouched() -> None:
    text = "# Title \x1b[31m\n│ as it is"

    watched = Watched(terminal=False).show(*map(TextShown, text))

    assert watched.out.getvalue() == f"{text}\n"


def test_a_terminal_gets_markdown_block_by_block() -> None:
    watched = Watched()
    watched.display.show(TextShown("# Title\n\nsome **words**"))
    assert SGR.sub("", watched.out.getvalue()) == "Title\n"

    watched.show(TextShown(" more"))
    assert SGR.sub("", watched.out.getvalue()) == "Title\n\nsome words more\n"
    assert "\x1b[1m" in watched.out.getvalue()


def test_plain_mode_prints_the_source_without_escapes() -> None:
    watched = Watched(settings=OutputSettings(mode="plain")).show(TextShown("**bold** \x1b"), TextShown("[31m\nnext"))

    assert watched.out.getvalue() == "**bold** ⟨U+001B⟩[31m\nnext\n"


@pytest.mark.parametrize(("mode", "gutter"), [("rich", "│"), ("plain", "|")])
@pytest.mark.parametrize("cut", [1, 3, 100])
def test_no_row_begins_like_a_row_of_a_prompt(mode: str, gutter: str, cut: int) -> None:
    text = f"{gutter} one\n\n{gutter} two"
    watched = Watched(settings=OutputSettings(mode="rich" if mode == "rich" else "plain"))

    watched.show(*(TextShown(text[at : at + cut]) for at in range(0, len(text), cut)))

    assert [row[:2] for row in watched.out.getvalue().split("\n") if row.strip()] == [f" {gutter}"] * 2


def test_tools_and_notices_go_to_stderr() -> None:
    watched = Watched(terminal=False).show(
        ToolBegan(CALL), ToolBegan(CALL, again=True), ToolEnded(CALL, "no such\nhost", is_error=True), Notice("tried\x1b again")
    )

    assert watched.out.getvalue() == ""
    assert watched.err.getvalue() == "· deploy\n· deploy failed: no such\nmidturn: tried⟨U+001B⟩ again\n"


@pytest.mark.parametrize("told", [INPUT_CANCELLED, TURN_ENDED])
def test_a_call_that_ended_with_its_turn_did_not_fail_and_speaks_of_nobody_as_the_user(told: str) -> None:
    watched = Watched().show(ToolBegan(CALL), ToolEnded(CALL, told, is_error=True))

    assert SGR.sub("", watched.err.getvalue()) == "· deploy\n· deploy: not finished: the turn was ended\n"


def test_hidden_tools_are_not_mentioned() -> None:
    settings = OutputSettings(hidden=frozenset({"deploy"}))

    watched = Watched(terminal=False, settings=settings).show(ToolBegan(CALL), ToolEnded(CALL, "x", is_error=True))

    assert watched.err.getvalue() == ""


ASK = ToolCall("ev", "call", "ask_user", {"question": "One\ntwo", "options": []})
WRONG = """\
ask_user: nothing was asked, because the arguments are wrong. Correct them and call it again.
- /question: the text has 2 lines; one is allowed. Put multi-line text in `context`.
- /options: 0 options are given; 1 to 200 are allowed."""
ASKED = OutputSettings(hidden=frozenset({"ask_user"}))


def test_a_refused_ask_is_shown_although_asks_are_hidden() -> None:
    watched = Watched(terminal=False, settings=ASKED).show(TextShown("A form."), ToolBegan(ASK), ToolEnded(ASK, WRONG, is_error=True))

    assert watched.out.getvalue() == "A form.\n"
    assert watched.err.getvalue() == (
        "· ask_user One⏎ two failed: nothing was asked: /question: the text has 2 lines; one is allowed. "
        "Put multi-line text in `context`. (and 1 more)\n"
    )


def test_an_ask_that_nobody_could_answer_is_shown() -> None:
    told = "ask_user cannot run because no interactive terminal is available. Do not retry this tool call in this turn."
    watched = Watched(terminal=False, settings=ASKED).show(ToolBegan(ASK), ToolEnded(ASK, told, is_error=True))

    assert watched.err.getvalue() == f"· ask_user One⏎ two failed: {told}\n"


@pytest.mark.parametrize("told", [INPUT_CANCELLED, TURN_ENDED])
def test_an_ask_that_the_person_ended_is_not_mentioned(told: str) -> None:
    watched = Watched(terminal=False, settings=ASKED).show(ToolBegan(ASK), ToolEnded(ASK, told, is_error=True))

    assert watched.err.getvalue() == ""


def test_an_answered_ask_is_not_mentioned() -> None:
    assert Watched(terminal=False, settings=ASKED).show(ToolBegan(ASK), ToolEnded(ASK, "{}", is_error=False)).err.getvalue() == ""


def test_a_line_is_finished_before_a_tool_is_named() -> None:
    watched = Watched(settings=OutputSettings(mode="plain"))
    watched.show(TextShown("I will deploy"), ModelFinished(), ToolBegan(CALL))

    assert watched.out.getvalue() == "I will deploy\n"


def test_reasoning_is_shown_dim_on_stderr_where_it_is_asked_for() -> None:
    happened = (ReasoningShown("hm\x1b[1m"), TextShown("Yes."), ModelFinished())

    assert Watched().show(*happened).err.getvalue() == ""
    watched = Watched(settings=OutputSettings(mode="rich", reasoning=True)).show(*happened)
    assert watched.err.getvalue() == "\x1b[90m~ hm⟨U+001B⟩[1m\x1b[0m\n"
    plain = Watched(terminal=False, settings=OutputSettings(reasoning=True)).show(*happened)
    assert plain.err.getvalue() == "hm⟨U+001B⟩[1m\n"


def test_everything_is_held_while_a_prompt_is_open() -> None:
    gate = Gate()
    watched = Watched(gate=gate)

    with gate.shut():
        watched.show(TextShown("words"), ToolBegan(CALL))
        assert watched.out.getvalue() + watched.err.getvalue() == ""

    assert SGR.sub("", watched.out.getvalue()) == "\nwords\n"
    assert SGR.sub("", watched.err.getvalue()) == "\n· deploy\n"


def test_an_empty_row_stands_between_a_prompt_and_what_the_assistant_says_next() -> None:
    watched = Watched()
    with watched.gate.shut():
        watched.out.write("Which database? backup\n")

    watched.show(TextShown("Thanks."))

    assert SGR.sub("", watched.out.getvalue()) == "Which database? backup\n\nThanks.\n"


def test_a_row_about_a_tool_stands_right_below_the_prompt_that_was_about_it() -> None:
    watched = Watched()
    watched.display.show(TextShown("I deploy it."))
    watched.display.show(ModelFinished())
    with watched.gate.shut():
        pass

    watched.show(ToolBegan(CALL))

    assert not watched.err.getvalue().startswith("\n")


def test_a_row_counts_the_seconds_and_goes_away() -> None:
    watched = Watched()

    async def wait() -> None:
        watched.display.show(ModelStarted())
        await until(lambda: re.search(f"\r[{FRAMES}] thinking \\d s", watched.err.getvalue()))

    asyncio.run(wait())

    watched.show(TextShown("done"))
    assert watched.err.getvalue().endswith(" \r")


def test_in_a_file_two_messages_are_two_paragraphs() -> None:
    watched = Watched(terminal=False)
    watched.show(TextShown("One"), TextShown(" thing."), ModelFinished(), ToolBegan(CALL), TextShown("Done."), ModelFinished())

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
    async with asyncio.timeout(60):
        while "midturn.terminal.markdown.flow" not in sys.modules:
            await asyncio.sleep(0.01)
    display.end()
    print(repr(out.getvalue()))

asyncio.run(think())
"""


def test_what_draws_words_is_loaded_while_the_model_thinks() -> None:
    ended = subprocess.run([sys.executable, "-c", LOADED_MEANWHILE], capture_output=True, text=True, timeout=90, check=False)

    assert (ended.stdout, ended.stderr) == ("''\n", "")


def test_the_row_names_the_model_that_is_asked_on_the_side() -> None:
    watched = Watched()

    async def wait() -> None:
        watched.display.show(ToolBegan(CALL))
        watched.display.show(ConsultStarted("q1", "anthropic/claude-haiku-4-5"))
        await until(lambda: "anthropic/claude-haiku-4-5 is asked" in watched.err.getvalue())
        watched.display.show(ConsultFinished("q1"))
        watched.display.end()

    asyncio.run(wait())


def test_the_row_makes_room_for_a_prompt() -> None:
    gate = Gate()
    watched = Watched(gate=gate)

    async def wait() -> None:
        watched.display.show(ModelStarted())
        await until(lambda: watched.frames)
        with gate.shut():
            assert watched.err.getvalue().endswith(" \r")
            before = watched.err.getvalue()
            await as_long_as_a_row_takes()
            assert watched.err.getvalue() == before

    asyncio.run(wait())


def test_without_a_terminal_nothing_counts() -> None:
    watched = Watched(terminal=False)

    async def wait() -> None:
        watched.display.show(ModelStarted())
        await as_long_as_a_row_takes()

    asyncio.run(wait())
    assert watched.err.getvalue() == ""


def test_the_turn_goes_on_when_nobody_reads() -> None:
    told: list[str] = []

    class Closed(Stream):
        def write(self, text: str, /) -> int:
            """Be a pipe without a reader."""
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
            """Be a file on a full disk."""
            raise OSError(errno.ENOSPC, f"No space left for {text!r}")

    display = TerminalDisplay(streams=(Full(terminal=False), Stream(terminal=False)))

    with pytest.raises(OSError, match="No space left"):
        display.show(TextShown("words"))

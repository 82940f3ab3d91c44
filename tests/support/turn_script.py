"""Script of a turn: the calls of the model, the questions of the tools, the behaviour of people.
Independent of midturn.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Value: TypeAlias = bool | str | None
Policy: TypeAlias = Literal["defer", "auto", "defaults", "deny"]
How: TypeAlias = Literal["return", "await", "try", "told"]

VALUES: dict[str, tuple[Value, ...]] = {
    "boolean": (True, False),
    "select": ("red", "blue"),
    "text": ("now", "later"),
    "secret": ("hunter2", "hunter2"),
}
CONFIGURED: dict[str, Value] = {
    "boolean": True,
    "select": "red",
    "text": "as ever",
    "secret": "from a file",
}
DEFAULTS: dict[str, Value] = {"boolean": True, "select": "blue", "text": "whenever"}


What: TypeAlias = Literal[
    "yes", "no", "edit", "withdraw", "pass", "remind", "escalate", "reply", "late", "end"
]


class GroupAction(Struct, frozen=True):
    """One action on a question for several people: a decision through some interface, a reminder,
    or the passing of time.
    """

    what: What
    who: str = ""
    via: Literal["web", "inbox", "terminal", "api"] = "web"


class PeopleGroup(Struct, frozen=True):
    """People that a question is put to: ana, bo and carl (`ops`), and `lead` after an escalation.
    `actions` is what they do.
    """

    only: bool = False
    approvals: int = 1
    actions: tuple[GroupAction, ...] = ()


class Ask(Struct, frozen=True):
    """A question. `gate` is the index of an earlier question of its round, and the answer to it
    that opens this question.

    `of` are the people it is put to. `timed`: its round has a deadline.
    """

    id: str
    kind: str = "boolean"
    context: str = ""
    has_default: bool = False
    optional: bool = False
    exclusive: bool = False
    remembers: bool = False
    gate: tuple[int, Value] | None = None
    of: PeopleGroup | None = None
    timed: bool = False

    @property
    def bare(self) -> Ask:
        """The question without its gate. Two rounds may ask the same question."""
        return replace(self, gate=None)

    @property
    def text(self) -> str:
        return f"About {self.id}?"


class Round(Struct, frozen=True):
    """Questions that are asked together: the tool returns them, awaits them, or continues without
    answers.

    With `told`, the tool is told why nobody may or can answer. With `try`, it also receives
    replies, including those at the review.
    """

    questions: tuple[Ask, ...]
    how: How = "return"
    review: bool = False


class Until(Struct, frozen=True):
    """A yes/no question that is repeated until the answer is yes."""

    round: Round


class Together(Struct, frozen=True):
    """Several rounds that one coroutine awaits at the same time."""

    rounds: tuple[Round, ...]


class GiveUp(Struct, frozen=True):
    """A round that a coroutine asks and abandons at once."""

    round: Round


Op: TypeAlias = Round | Until | Together | GiveUp


class Program(Struct, frozen=True):
    """The behaviour of a tool. With the end `leaves`, it finishes while `left` is still open."""

    ops: tuple[Op, ...] = ()
    end: Literal["succeeds", "fails", "leaves", "interrupted"] = "succeeds"
    left: Round | None = None


class Rule(Struct, frozen=True):
    """The configuration of one question."""

    target: Literal["user", "assistant", "assistant_with_escalation"] = "user"
    configured: Literal["", "fits", "misfits"] = ""
    exclusive: bool | None = None


class Tool(Struct, frozen=True, kw_only=True):
    """A tool and its configuration. `detached` is by kind (`run`, `deliver`, `tool`). `permits`
    is the remembered permission.

    `previews` is the question that the tool announces before its call runs: its first one, or
    another one that it never asks. `of` are the people who permit a call by a rule, and `timed`
    is whether they have a deadline.
    """

    name: str
    detached: Mapping[str, Policy]
    run: Literal["ask", "unattended", "skip"] = "unattended"
    result: Literal["ask", "unattended", "skip"] = "unattended"
    rules: Mapping[str, Rule] = {}
    permits: Literal["", "y", "n"] = ""
    previews: Literal["", "first", "another"] = ""
    of: PeopleGroup | None = None
    timed: bool = False

    def rule(self, id: str) -> Rule:
        """Return the configuration of a question."""
        return self.rules.get(id, Rule())


class Called(Struct, frozen=True, kw_only=True):
    """One call by the model. `moods` are random numbers that select the reactions; `forced` fixes
    the number for some of them.

    A call with `tool` None names a tool that does not exist. `broken`: its arguments are not a
    JSON object.
    """

    tool: Tool | None
    id: str
    program: Program = Program()
    moods: tuple[int, ...] = (0,)
    forced: Mapping[str, int] = {}
    may_end: bool = False
    broken: bool = False


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of a turn."""

    repeats: int = 3
    shown: int = 20
    rejected_cycles: int = 3
    cycles: int = 50


class Script(Struct, frozen=True, kw_only=True):
    """A whole turn. `later` is how open questions are answered after suspension; `schedule`
    determines the order of inputs.

    In a detached turn with `later` = `attach`, every policy is `defer`, and a person attaches
    later. With `at_once`, people elsewhere act while the turn runs; otherwise they act after it
    is suspended.
    """

    cycles: tuple[tuple[Called, ...], ...]
    ending: Literal["says", "fails", "interrupted"] = "says"
    model_is_down: bool = False
    attached: bool = True
    later: Literal["settle", "attach"] = "settle"
    limits: Limits = Limits()
    schedule: tuple[int, ...] = ()
    at_once: bool = False

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools that are called, by name."""
        return {
            called.tool.name: called.tool
            for cycle in self.cycles
            for called in cycle
            if called.tool
        }


NEVER_ASKED = Ask("yes", context="and this is never asked")


def previewed_question(called: Called) -> Ask | None:
    """Return the question that a call previews. Only a yes/no question can be answered together
    with a permission.
    """
    match called.tool.previews if called.tool else "":
        case "another":
            return NEVER_ASKED
        case "first":
            first = next(
                (op.questions[0] for op in called.program.ops if isinstance(op, Round)), None
            )
            return first.bare if first is not None and first.kind == "boolean" else None
        case _:
            return None


def asks_of(program: Program) -> list[Ask]:
    """Return every question that a program may ask."""
    found: list[Ask] = []
    for op in (*program.ops, *([program.left] if program.left else [])):
        match op:
            case Round(questions):
                found += questions
            case Together(rounds):
                found += [question for each in rounds for question in each.questions]
            case Until(each) | GiveUp(each):
                found += each.questions
    return found


# The behaviour of a tool: a generator that the player and the oracle both drive
# -----------------------------------------


class Returns(Struct, frozen=True):
    """The tool returns a round, and is run again."""

    round: Round


class Awaits(Struct, frozen=True):
    """The tool waits for rounds."""

    rounds: tuple[Round, ...]


class GivesUp(Struct, frozen=True):
    """The tool asks a round and abandons it."""

    round: Round


class Ends(Struct, frozen=True):
    """The tool is done; a round may still be open."""

    content: str
    fails: bool = False
    left: Round | None = None


class Stuck(Struct, frozen=True):
    """The tool works until the user presses Ctrl-C."""


Act: TypeAlias = Returns | Awaits | GivesUp | Ends | Stuck
Heard: TypeAlias = Mapping[str, Value]
Running: TypeAlias = Generator[Act, Sequence[Heard], None]


def running(called: Called, arguments: str, answers: Heard) -> Running:
    """Run a tool once with the answers so far. Send it one mapping per awaited round. Its result
    contains the answers it received.
    """
    heard = dict(answers)
    for op in called.program.ops:
        match op:
            case Round(questions, "return"):
                if any(question.id not in answers for question in questions):
                    yield Returns(op)
                    return
            case Until(Round((question,), "return") as asked):
                if not answers.get(question.id):
                    yield Returns(asked)
                    return
            case Until(asked):
                yield from _until_yes(asked, heard)
            case Round() | Together():
                for given in (yield Awaits(op.rounds if isinstance(op, Together) else (op,))):
                    heard |= given
            case GiveUp(asked):
                yield GivesUp(asked)
    yield _end(called.program, json.dumps([arguments, heard]))


def _until_yes(asked: Round, heard: dict[str, Value]) -> Running:
    while True:
        (given,) = yield Awaits((asked,))
        heard |= given
        if given[asked.questions[0].id] is not False:
            return


def _end(program: Program, content: str) -> Act:
    match program.end:
        case "interrupted":
            return Stuck()
        case "leaves":
            return Ends(content, left=program.left)
        case end:
            return Ends(content, fails=end == "fails")

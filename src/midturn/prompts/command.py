"""What one key does at a prompt, and which keys a prompt offers."""

from __future__ import annotations

from enum import Enum, auto
from typing import TypeAlias, assert_never

from msgspec import Struct

from midturn.core.prompt import Prompt
from midturn.core.question.answer_type import BooleanType, MultiSelectType, SchemaType, SecretType, SelectType, TextType
from midturn.core.reply import Answered, EndedTurn, Reply, WentBack


class Step(Enum):
    """What a key does that is not a reply yet."""

    ANSWER = auto()
    GIVE_REASON = auto()
    REPLY = auto()
    OTHER = auto()
    EDIT = auto()
    PRINT = auto()
    VIEW = auto()
    HELP = auto()


class Command(Struct, frozen=True):
    """A key, what the help says about it, what it does, and its title in a row of keys."""

    key: str
    help: str
    does: Reply | Step
    title: str = ""


Commands: TypeAlias = tuple[Command, ...]

HELP = Command("?", "this help", Step.HELP)


def commands(prompt: Prompt, cut: int = 0) -> Commands:
    """Return the keys of a prompt in the order in which they are shown; `cut` counts the rows that did not fit."""
    view = (Command("v", f"view the {cut} rows that are not shown", Step.VIEW, "View"),) if cut else ()
    match prompt.kind:
        case "run":
            own = (*_yes_no(prompt, "run it", "skip it"), *_RUN)
        case "deliver":
            own = (*_yes_no(prompt, "give the result to the model", "withhold the result"), *_DELIVER)
        case "review":
            own = ()
        case "tool":
            own = _by_type(prompt)
        case _ as other:
            assert_never(other)
    return (*own, *leaving(prompt), *view, HELP)


def leaving(prompt: Prompt) -> Commands:
    """Return the ways out of a prompt without an answer: Back, Reply, End Turn."""
    back = (Command("b", "back to the previous question", WentBack(), "Back"),) if prompt.can_go_back or prompt.kind == "review" else ()
    approval = prompt.kind in {"run", "deliver"}
    reply = (Command("r", "reply to the assistant instead of answering", Step.REPLY, "Reply"),) if prompt.can_reply and not approval else ()
    return (*back, *reply, Command("s", "stop: end the turn now", EndedTurn(), "End Turn"))


def find(offered: Commands, key: str) -> Command | None:
    """Return the command of a key, else None."""
    return next((command for command in offered if command.key == key), None)


_RUN: Commands = (
    Command("p", "print the arguments in full", Step.PRINT),
    Command("r", "skip it, and say why", Step.GIVE_REASON),
    Command("e", "edit the arguments, then run it", Step.EDIT),
)
_DELIVER: Commands = (
    Command("p", "print the result in full", Step.PRINT),
    Command("e", "edit the result, then give it to the model", Step.EDIT),
)
_SKIP = Command("-", "skip this question", Answered(None), "Skip")


def _by_type(prompt: Prompt) -> Commands:
    skip = (_SKIP,) if prompt.question.optional else ()
    match prompt.question.answer_type:
        case BooleanType():
            return (*_yes_no(prompt, "yes", "no"), Command("p", "no, and say why", Step.GIVE_REASON), *skip)
        case SelectType(allow_other=allow) | MultiSelectType(allow_other=allow):
            other = (Command("o", "something else, in your own words", Step.OTHER, "Other"),) if allow else ()
            return (*other, *skip)
        case TextType() | SecretType() | SchemaType():
            return skip
        case _ as other:
            assert_never(other)


def _yes_no(prompt: Prompt, yes: str, no: str) -> Commands:
    """Return `y n`, and `Y N` where the answer may be remembered for the turn."""
    if not prompt.may_remember:
        return (Command("y", yes, Answered(True)), Command("n", no, Answered(False)))
    return (
        Command("y", f"{yes}, just this once", Answered(True)),
        Command("Y", f"{yes}, and remember for this turn", Answered(True, remember=True)),
        Command("n", f"{no}, just this once", Answered(False)),
        Command("N", f"{no}, and remember for this turn", Answered(False, remember=True)),
    )

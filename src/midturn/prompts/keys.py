"""Commands of keys at a prompt, and the keys that a prompt offers."""

from __future__ import annotations

from enum import Enum, auto
from typing import TypeAlias, assert_never

from msgspec import Struct

from midturn.prompts.content import one_line
from midturn.question.answer import YES_OR_NO
from midturn.question.answer_type import BooleanType, MultiSelectType, SchemaType, SecretType, SelectType, TextType
from midturn.question.reply import Answered, EndedTurn, Reply, WentBack
from midturn.record.prompt import Prompt

_NAMES = {
    **{word: "y" if yes else "n" for word, yes in YES_OR_NO.items() if len(word) > 1},  # a single letter is a key
    **dict.fromkeys(("always", "yes always", "always yes"), "Y"),
    **dict.fromkeys(("never", "no always", "always no"), "N"),
    **dict.fromkeys(("because", "no because"), "p"),
    **dict.fromkeys(("back",), "b"),
    **dict.fromkeys(("reply",), "r"),
    **dict.fromkeys(("end", "end turn", "stop"), "s"),
    **dict.fromkeys(("other", "own words"), "o"),
    **dict.fromkeys(("skip",), "-"),
    **dict.fromkeys(("edit",), "e"),
    **dict.fromkeys(("rule", "by a rule", "always by a rule"), "A"),
    **dict.fromkeys(("view", "view all"), "v"),
    **dict.fromkeys(("help",), "?"),
}


class KeyStep(Enum):
    """What a key does that is not a reply yet."""

    ANSWER = auto()
    GIVE_REASON = auto()
    REPLY = auto()
    OTHER = auto()
    EDIT = auto()
    RULE = auto()
    VIEW = auto()
    HELP = auto()


class Command(Struct, frozen=True):
    """A key, what the help says about it, what it does, its title in a menu, and the word or two that stand beside it in a row of keys.

    `spoken` may be typed in place of the key, where capital letters cannot be told by ear.
    """

    key: str
    help: str
    does: Reply | KeyStep
    title: str = ""
    word: str = ""
    spoken: str = ""


Commands: TypeAlias = tuple[Command, ...]

OURS = "midturn"
"""Who asks where a command of ours does."""

OTHER = Command("o", "something else, in your own words", KeyStep.OTHER, "Other", "own words")

HELP = Command("?", "this help", KeyStep.HELP, word="all keys")


def commands(prompt: Prompt, cut: int = 0) -> Commands:
    """Return the keys of a prompt in the order in which they are shown; `cut` counts the rows that did not fit."""
    view = (Command("v", f"view the {cut} rows that are not shown", KeyStep.VIEW, "View", "view all"),) if cut else ()
    match prompt.kind:
        case "run":
            own = (*_yes_no(prompt, _Words("run it", "yes", "skip it", "no")), *_RUN, *((_BY_RULE,) if prompt.rule else ()))
            view = (Command("v", "view everything", KeyStep.VIEW, word="view all"),)
        case "deliver":
            own = (*_yes_no(prompt, _Words("give the result to the model", "yes", "withhold the result", "no")), *_DELIVER)
            view = (Command("v", "view everything", KeyStep.VIEW, word="view all"),)
        case "review":
            own = ()
        case "tool":
            own = _by_type(prompt)
        case _ as other:
            assert_never(other)
    return (*own, *leaving(prompt), *view, HELP)


def leaving(prompt: Prompt) -> Commands:
    """Return the ways out of a prompt without an answer: Back, Reply, End Turn."""
    goes_back = prompt.can_go_back or prompt.kind == "review"
    back = (Command("b", "back to the previous question", WentBack(), "Back", "back"),) if goes_back else ()
    if is_beside_a_turn(prompt):
        return back
    approval = prompt.kind in {"run", "deliver"}
    reply = (_REPLY,) if prompt.can_reply and not approval else ()
    return (*back, *reply, END)


def is_beside_a_turn(prompt: Prompt) -> bool:
    """Tell whether a command of ours asks, and no turn: there is no model to reply to, and nothing to end."""
    return prompt.asked_by == OURS and not prompt.tool and not prompt.id


def leaves(prompt: Prompt) -> str:
    """Say what Ctrl-C does."""
    return "leave without an answer" if is_beside_a_turn(prompt) else "cancel and end the turn"


def scope(prompt: Prompt) -> str:
    """Say what a remembered answer covers."""
    if prompt.always:
        offered = offers(prompt)
        return "; ".join(f"{key} {one_line(kept)}" if len(offered) > 1 else one_line(kept) for key, kept in offered)
    tool = one_line(prompt.tool or prompt.asked_by)
    if prompt.kind in {"run", "deliver"}:
        return f"every call of {tool} in this turn"
    return f"every {one_line(prompt.question.id)} of {tool} in this turn"


def covered(prompt: Prompt) -> str:
    """Say what a remembered answer covers, and that arguments make no difference to it."""
    return f"{scope(prompt)}{', whatever its arguments' if prompt.kind == 'run' else ''}"


def offers(prompt: Prompt) -> list[tuple[str, str]]:
    """Return what another agent offers to keep of a yes, each with its key: `Y` where it is one thing alone, else a digit."""
    return [("Y", prompt.always[0])] if len(prompt.always) == 1 else [*zip("123456789", prompt.always, strict=False)]


def remembering(prompt: Prompt) -> str:
    """Say what the keys of an answer that is remembered would let through; empty where there are none."""
    if not prompt.may_remember:
        return ""
    if len(prompt.always) > 1:
        return f"Always: {scope(prompt)}"
    return f"Y always: {scope(prompt)}" if prompt.always else f"Y yes, N no to {covered(prompt)}"


def is_remembered(command: Command) -> bool:
    """Tell whether a key gives an answer that is remembered."""
    return isinstance(command.does, Answered) and bool(command.does.remember)


def find(offered: Commands, key: str) -> Command | None:
    """Return the command of a key, else None."""
    return next((command for command in offered if command.key == key), None)


def find_named(offered: Commands, typed: str) -> Command | None:
    """Return the command of a key, or of a word for it: `yes`, `always`, `back`, `end turn`."""
    words = " ".join(typed.casefold().split())
    kept = words.removeprefix("always ") if words.startswith("always ") else ""
    return find(offered, typed) or find(offered, _NAMES.get(words, kept))


END = Command("s", "end the turn, after asking once more", EndedTurn(), "End Turn", "end turn")
_REPLY = Command("r", "reply to the assistant instead of answering", KeyStep.REPLY, "Reply", "reply")
_RUN: Commands = (
    Command("p", "skip it, and say why", KeyStep.GIVE_REASON, word="no, because…"),
    Command("e", "edit the arguments, then run it", KeyStep.EDIT, word="edit"),
)
_BY_RULE = Command("A", "run it, and write a rule for such calls: you see it first", KeyStep.RULE, word="rule…")
_DELIVER: Commands = (Command("e", "edit the result, then give it to the model", KeyStep.EDIT, word="edit"),)
_SKIP = Command("-", "skip this question", Answered(None), "Skip", "skip", spoken="skip")
_NO_BECAUSE = Command("p", "no, and say why", KeyStep.GIVE_REASON, word="no, because…")


def _by_type(prompt: Prompt) -> Commands:
    skip = (_SKIP,) if prompt.question.optional else ()
    match prompt.question.answer_type:
        case BooleanType():
            because = () if is_beside_a_turn(prompt) else (_NO_BECAUSE,)
            return (*_yes_no(prompt, _Words("yes", "yes", "no", "no")), *because, *skip)
        case SelectType(allow_other=allow) | MultiSelectType(allow_other=allow):
            other = (OTHER,) if allow else ()
            return (*other, *skip)
        case TextType() | SecretType() | SchemaType():
            return skip
        case _ as other:
            assert_never(other)


class _Words(Struct, frozen=True):
    """What yes and no mean here: in the help, and in a row of keys."""

    yes: str
    y: str
    no: str
    n: str


def _yes_no(prompt: Prompt, words: _Words) -> Commands:
    """Return `y n`, and `Y N` where the answer may be remembered for the turn, with what that covers."""
    if not prompt.may_remember:
        return (Command("y", words.yes, Answered(True), word=words.y), Command("n", words.no, Answered(False), word=words.n))
    every = covered(prompt)
    if prompt.always:
        return (
            Command("y", f"{words.yes}, just this once", Answered(True), word=words.y),
            *(_keeping(words, key, kept) for key, kept in offers(prompt)),
            Command("n", words.no, Answered(False), word=words.n),
        )
    return (
        Command("y", f"{words.yes}, just this once", Answered(True), word=words.y),
        Command("Y", f"{words.yes}, and so for {every}", Answered(True, remember=True), spoken="always"),
        Command("n", f"{words.no}, just this once", Answered(False), word=words.n),
        Command("N", f"{words.no}, and so for {every}", Answered(False, remember=True), spoken="never"),
    )


def _keeping(words: _Words, key: str, kept: str) -> Command:
    spoken = "always" if key == "Y" else f"always {key}"
    return Command(key, f"{words.yes}, and always: {one_line(kept)}", Answered(True, remember=kept), spoken=spoken)


# ----------------------------------------------------------------------------------------------------------------------
# Going back from a review to a question of the person's choice, one Back after the other


class Ruled(Answered, frozen=True):
    """A yes, with a rule (TOML) that the person has written for such calls."""

    rule: str = ""


class BackTo(WentBack, frozen=True):
    """Back, and on until the question with this `index`."""

    index: int = 1


class Jump:
    """The rest of the way back to a question: each prompt passes here before it is shown."""

    def __init__(self) -> None:
        self._from: Prompt | None = None
        self._index = 0

    def begin(self, prompt: Prompt, reply: BackTo) -> Reply:
        """Take note of where a reply goes; return what is told to the turn."""
        self._from, self._index = prompt, reply.index
        return WentBack()

    def passes(self, prompt: Prompt) -> bool:
        """Tell whether the way goes on past this prompt, so that it is not shown."""
        if self._from is None:
            return False
        goes_on = _is_of_same_call(self._from, prompt) and prompt.kind == "tool" and prompt.index > self._index and prompt.can_go_back
        if not goes_on:
            self._from = None
        return goes_on


def _is_of_same_call(one: Prompt, other: Prompt) -> bool:
    """Tell whether two prompts that come one after the other belong to one call: a form keeps the screen until it is done."""
    return (one.conversation, one.tool, one.arguments) == (other.conversation, other.tool, other.arguments)

"""Display of untrusted text, and the keys of a prompt with their commands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import TypeAlias, assert_never, cast

from msgspec import UNSET, Struct, UnsetType

from midturn.events.prompt import Prompt
from midturn.question import answer_type as answers
from midturn.question.decision_words import YES_OR_NO
from midturn.question.json_text import compact
from midturn.question.json_value import Json, json_equal
from midturn.question.reply import Answered, Deferred, EndedTurn, Reply, WentBack
from midturn.question.text import exact
from midturn.terminal.prompts.cells import steady

RETURN = "⏎"
TAB = "⇥"
DIFFS = frozenset({"diff", "patch"})
"""Info strings of code blocks that contain a diff."""

TAB_STOP = 4
_SIGN_ESCAPES = {ord(sign): f"⟨U+{ord(sign):04X}⟩" for sign in (RETURN, TAB)}
"""Symbols that midturn displays for line breaks and tabs, with their escaped form.

In untrusted text they are escaped, so that they cannot be mistaken for a line break or a tab.
"""


def one_line(text: str) -> str:
    """Return `text` on one line. Line breaks become `⏎`, tabs become `⇥`."""
    lines = (
        TAB.join(exact(part).translate(_SIGN_ESCAPES) for part in line.split("\t"))
        for line in text.split("\n")
    )
    return steady(f"{RETURN} ".join(lines))


def question_line(prompt: Prompt) -> str:
    """Return the text of the question on one line."""
    return one_line(prompt.question.text)


def shown_lines(text: str) -> list[str]:
    """Return the lines of `text`, each formatted by `code_line`."""
    return [code_line(line) for line in text.split("\n")]


def code_line(line: str) -> str:
    """Return a line in which every character is visible.

    A tab becomes `⇥` and spaces up to the next tab stop. A space at the end becomes its code point.
    """
    ends_blank = line.endswith(" ")
    shown, at = "", 0
    first, *more = (line[:-1] if ends_blank else line).split("\t")
    for part, begins in ((first, ""), *((part, TAB) for part in more)):
        shown += begins.ljust(TAB_STOP - at % TAB_STOP) if begins else ""
        at += TAB_STOP - at % TAB_STOP if begins else 0
        shown += exact(part).translate(_SIGN_ESCAPES)
        at += len(part)
    return f"{shown}⟨U+0020⟩" if ends_blank else shown


def diff_line(line: str) -> str:
    """Return a diff line with every character visible. The first column is the diff sign."""
    return exact(line[:1]) + code_line(line[1:])


def split_lines(text: str) -> list[str]:
    r"""Split at `\n` and `\r\n` only.

    Other line breaks are escaped later, so they become visible.
    """
    return text.replace("\r\n", "\n").split("\n")


def label(option: answers.SelectOption) -> str:
    """Return the label of an option: a string unchanged, any other value as JSON."""
    return one_line(scalar_text(option.value))


def scalar_text(value: Json) -> str:
    """Return a string unchanged and any other value as JSON.

    Typing this text selects an option.
    """
    return value if isinstance(value, str) else compact(value)


def description(option: answers.SelectOption) -> str:
    """Return the description of an option on one line, or an empty string."""
    return one_line(option.description or "")


def preview_lines(option: answers.SelectOption) -> list[str]:
    """Return the lines of an option's preview with every character visible."""
    return (
        shown_lines("\n".join(split_lines(option.preview.removesuffix("\n"))))
        if option.preview
        else []
    )


def has_previews(prompt: Prompt) -> bool:
    return answers.has_previews(prompt.question.answer_type)


def pretty(value: Json) -> str:
    """Return JSON indented for editing."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def asked_by(prompt: Prompt) -> str:
    """Return the asker's name, computed from the source of the question.

    A configured label never replaces it.
    """
    return one_line(prompt.asked_by or prompt.tool or "midturn")


def about(prompt: Prompt) -> str:
    """Return the asker and the question on one line."""
    return f"{asked_by(prompt)} asks: {question_line(prompt)}"


def quoted_label(prompt: Prompt) -> str:
    """Return the configured label in quotes if it differs from the asker, else an empty string."""
    return (
        f' "{one_line(prompt.label)}"' if prompt.label and prompt.label != prompt.asked_by else ""
    )


def initial(prompt: Prompt) -> Json | UnsetType:
    """Return the initial answer: the earlier answer after Back, else the default, else `UNSET`."""
    return prompt.question.default if prompt.prefill is UNSET else prompt.prefill


def yes_no_default(prompt: Prompt) -> bool | None:
    """Return the default of a yes/no question, which Enter submits, or None.

    Approvals have no default.
    """
    start = initial(prompt)
    return start if isinstance(start, bool) and prompt.kind == "tool" else None


def first_other(prompt: Prompt) -> str | None:
    """Return the free text that is a list's initial answer, or None."""
    start = initial(prompt)
    values = (
        cast("Sequence[Json]", start)
        if isinstance(start, list | tuple)
        else ()
        if start is UNSET
        else (start,)
    )
    return next((text for value in values if (text := other_text(value)) is not None), None)


def skipped(prompt: Prompt) -> bool:
    """Return whether the prompt starts as skipped, because it was skipped earlier or by default."""
    return prompt.question.optional and initial(prompt) is None


def marked(prompt: Prompt) -> frozenset[int]:
    """Return the indexes of the options that are selected at the start."""
    options = (
        prompt.question.answer_type.options
        if isinstance(prompt.question.answer_type, answers.SelectType | answers.MultiSelectType)
        else ()
    )
    start = initial(prompt)
    values = start if isinstance(start, list | tuple) else [] if start is UNSET else [start]
    places = (position(options, value) for value in cast("Sequence[Json]", values))
    return frozenset(place for place in places if place is not None)


def other_text(value: Json) -> str | None:
    """Return the text of `{"other": "<text>"}`, or None for any other value."""
    if isinstance(value, Mapping) and set(value) == {"other"}:
        text = value["other"]
        return text if isinstance(text, str) else None
    return None


def position(options: tuple[answers.SelectOption, ...], value: Json) -> int | None:
    """Return the index of the option with this value, or None."""
    return next(
        (index for index, option in enumerate(options) if json_equal(option.value, value)), None
    )


_NAMES = {
    **{
        word: "y" if yes else "n" for word, yes in YES_OR_NO.items() if len(word) > 1
    },  # single letters are excluded, because they are keys
    **dict.fromkeys(("always", "yes always", "always yes"), "Y"),
    **dict.fromkeys(("never", "no always", "always no"), "N"),
    **dict.fromkeys(("conversation", "yes conversation"), "C"),
    **dict.fromkeys(("no conversation",), "X"),
    **dict.fromkeys(("because", "no because"), "p"),
    **dict.fromkeys(("back",), "b"),
    **dict.fromkeys(("reply",), "r"),
    **dict.fromkeys(("end", "end turn", "stop"), "s"),
    **dict.fromkeys(("later",), "l"),
    **dict.fromkeys(("other", "own words"), "o"),
    **dict.fromkeys(("skip",), "-"),
    **dict.fromkeys(("edit",), "e"),
    **dict.fromkeys(("rule", "by a rule", "always by a rule"), "A"),
    **dict.fromkeys(("view", "view all"), "v"),
    **dict.fromkeys(("json", "as json"), "j"),
    **dict.fromkeys(("help",), "?"),
}


class KeyStep(Enum):
    """Actions of keys that do not answer the question directly."""

    ANSWER = auto()
    GIVE_REASON = auto()
    REPLY = auto()
    OTHER = auto()
    EDIT = auto()
    RULE = auto()
    VIEW = auto()
    HELP = auto()


class Command(Struct, frozen=True):
    """A key of a prompt and its command.

    Attributes:
        key: The key.
        help: Text in the help.
        does: The reply that the key submits, or the next step.
        title: Title in a menu.
        word: Short name, displayed after the key in the row of keys.
        spoken: A word that can be typed instead of the key, for screen readers that do not announce
            capital letters.
    """

    key: str
    help: str
    does: Reply | KeyStep
    title: str = ""
    word: str = ""
    spoken: str = ""


Commands: TypeAlias = tuple[Command, ...]

OURS = "midturn"
"""Asker name for questions that a midturn command asks outside a turn."""

OTHER = Command("o", "something else, in your own words", KeyStep.OTHER, "Other", "own words")

HELP = Command("?", "this help", KeyStep.HELP, word="all keys")


def commands(prompt: Prompt, cut: int = 0) -> Commands:
    """Return the keys of a prompt in display order.

    `cut` is the number of rows above the question that were not printed.
    """
    view = (
        (Command("v", f"view the {cut} rows that are not shown", KeyStep.VIEW, "View", "view all"),)
        if cut
        else ()
    )
    if not cut and has_previews(prompt):
        view = (Command("v", "view the previews of all options", KeyStep.VIEW, "View", "view all"),)
    match prompt.kind:
        case "run":
            own = (
                *_yes_no(prompt, _Words("run it", "yes", "skip it", "no")),
                *_RUN,
                *((_WITH_RULE,) if prompt.rule else ()),
            )
            view = (Command("v", "view everything", KeyStep.VIEW, word="view all"),)
        case "deliver":
            own = (
                *_yes_no(
                    prompt,
                    _Words("give the result to the model", "yes", "withhold the result", "no"),
                ),
                *_DELIVER,
            )
            view = (Command("v", "view everything", KeyStep.VIEW, word="view all"),)
        case "review":
            own = (AS_JSON,) if isinstance(prompt, ObjectField) else ()
        case "tool":
            own = (*_by_type(prompt), *((AS_JSON,) if isinstance(prompt, ObjectField) else ()))
        case _ as other:
            assert_never(other)
    return (*own, *leaving(prompt), *view, HELP)


def leaving(prompt: Prompt) -> Commands:
    """Return the commands that close a prompt without an answer: Back, Reply, End Turn, Later."""
    goes_back = prompt.can_go_back or prompt.kind == "review"
    back = (
        (Command("b", "back to the previous question", WentBack(), "Back", "back"),)
        if goes_back
        else ()
    )
    if is_beside_a_turn(prompt):
        return back
    approval = prompt.kind in {"run", "deliver"}
    reply = (_REPLY,) if prompt.can_reply and not approval else ()
    return (*back, *reply, END, LATER)


def is_beside_a_turn(prompt: Prompt) -> bool:
    """Return whether a midturn command asks the question outside a turn.

    If so, there is no model that could receive a reply, and no turn that could be ended.
    """
    return prompt.asked_by == OURS and not prompt.tool and not prompt.id


LEAVES_FORM = "the form has answers: Ctrl-C again to end the turn, any other key to continue"


def loses_answers(prompt: Prompt) -> bool:
    """Return whether ending the turn discards answers that were given earlier in the same form."""
    return prompt.kind == "review" or (prompt.kind == "tool" and prompt.index > 1)


def leaves(prompt: Prompt) -> str:
    """Describe the effect of Ctrl-C."""
    if prompt.exit_leaves_open:
        return "leave the question open"
    return "leave without an answer" if is_beside_a_turn(prompt) else "cancel and end the turn"


ESCAPE_OPENS_MENU = "Esc menu · F1 help"
ESCAPE_DEFERS = "Esc later · F1 menu"


def escape_hint(prompt: Prompt) -> str:
    """Return the hint for Esc and F1 in a text field."""
    return ESCAPE_DEFERS if prompt.exit_leaves_open else ESCAPE_OPENS_MENU


def exit_reply(prompt: Prompt) -> Reply:
    """Return the reply for Ctrl-C and for the end of input."""
    return Deferred() if prompt.exit_leaves_open else EndedTurn()


def scope(prompt: Prompt) -> str:
    """Describe the calls or questions for which an answer is remembered."""
    if prompt.always:
        offered = offers(prompt)
        return "; ".join(
            f"{key} {one_line(kept)}" if len(offered) > 1 else one_line(kept)
            for key, kept in offered
        )
    tool = one_line(prompt.tool or prompt.asked_by)
    if prompt.kind in {"run", "deliver"}:
        return f"every call of {tool} in this turn"
    return f"every {one_line(prompt.question.id)} of {tool} in this turn"


def covered(prompt: Prompt) -> str:
    """Return the text of `scope`. For calls, it adds that any arguments are covered."""
    return f"{scope(prompt)}{', with any arguments' if prompt.kind == 'run' else ''}"


def offers(prompt: Prompt) -> list[tuple[str, str]]:
    """Return the standing permissions that another agent offers, each with its key.

    The key is `Y` if there is only one offer, else a digit.
    """
    return (
        [("Y", prompt.always[0])]
        if len(prompt.always) == 1
        else [*zip("123456789", prompt.always, strict=False)]
    )


def remembering(prompt: Prompt) -> str:
    """Return the hint for the keys that remember an answer, or an empty string."""
    if not prompt.may_remember:
        return ""
    if len(prompt.always) > 1:
        return f"Always: {scope(prompt)}"
    kept = (
        f"; {_FOR_CONVERSATION}"
        if prompt.kind == "tool" and "conversation" in prompt.scopes
        else ""
    )
    return (
        f"Y always: {scope(prompt)}" if prompt.always else f"Y yes, N no to {covered(prompt)}{kept}"
    )


_FOR_CONVERSATION = "C yes, X no to this question in this conversation"


def is_remembered(command: Command) -> bool:
    """Return whether the answer that the key submits is remembered."""
    return isinstance(command.does, Answered) and bool(command.does.remember or command.does.scope)


def find(offered: Commands, key: str) -> Command | None:
    """Return the command of a key, or None."""
    return next((command for command in offered if command.key == key), None)


def find_named(offered: Commands, typed: str) -> Command | None:
    """Return the command of a key or of its name (`yes`, `always`, `back`, `end turn`), or None."""
    words = " ".join(typed.casefold().split())
    kept = words.removeprefix("always ") if words.startswith("always ") else ""
    return find(offered, typed) or find(offered, _NAMES.get(words, kept))


END = Command("s", "end the turn, after asking once more", EndedTurn(), "End Turn", "end turn")
LATER = Command("l", "leave the question open, and decide later", Deferred(), "Later", "later")
LATER_IN_WORDS = Command("later", LATER.help, Deferred())
"""Replaces `LATER` in plain mode if an option is named `l`."""
_REPLY = Command(
    "r", "reply to the assistant instead of answering", KeyStep.REPLY, "Reply", "reply"
)
_RUN: Commands = (
    Command("p", "skip it, and say why", KeyStep.GIVE_REASON, word="no, because…"),
    Command("e", "edit the arguments, then run it", KeyStep.EDIT, word="edit"),
)
_WITH_RULE = Command(
    "A",
    "run it, and allow such calls from now on: you see the rule and choose where it applies",
    KeyStep.RULE,
    word="rule…",
)
_DELIVER: Commands = (
    Command("e", "edit the result, then give it to the model", KeyStep.EDIT, word="edit"),
)
_SKIP = Command("-", "skip this question", Answered(None), "Skip", "skip", spoken="skip")
_NO_BECAUSE = Command("p", "no, and say why", KeyStep.GIVE_REASON, word="no, because…")


def _by_type(prompt: Prompt) -> Commands:
    skip = (_SKIP,) if prompt.question.optional else ()
    match prompt.question.answer_type:
        case answers.BooleanType():
            because = (
                ()
                if is_beside_a_turn(prompt) or isinstance(prompt, ObjectField)
                else (_NO_BECAUSE,)
            )
            return (*_yes_no(prompt, _Words("yes", "yes", "no", "no")), *because, *skip)
        case answers.SelectType(allow_other=allow) | answers.MultiSelectType(allow_other=allow):
            other = (OTHER,) if allow else ()
            return (*other, *skip)
        case answers.TextType() | answers.SecretType() | answers.SchemaType():
            return skip
        case _ as other:
            assert_never(other)


class _Words(Struct, frozen=True):
    """Words for yes and no: long ones for the help, short ones for the row of keys."""

    yes: str
    y: str
    no: str
    n: str


def _yes_no(prompt: Prompt, words: _Words) -> Commands:
    """Return the keys `y` and `n`.

    If the answer can be remembered for the turn, also return `Y` and `N` with the scope.
    """
    if not prompt.may_remember:
        return (
            Command("y", words.yes, Answered(True), word=words.y),
            Command("n", words.no, Answered(False), word=words.n),
        )
    every = covered(prompt)
    if prompt.always:
        return (
            Command("y", f"{words.yes}, just this once", Answered(True), word=words.y),
            *(_keeping(words, key, kept) for key, kept in offers(prompt)),
            Command("n", words.no, Answered(False), word=words.n),
        )
    return (
        Command("y", f"{words.yes}, just this once", Answered(True), word=words.y),
        Command(
            "Y", f"{words.yes}, and so for {every}", Answered(True, remember=True), spoken="always"
        ),
        Command("n", f"{words.no}, just this once", Answered(False), word=words.n),
        Command(
            "N", f"{words.no}, and so for {every}", Answered(False, remember=True), spoken="never"
        ),
        *(
            _for_conversation(words)
            if prompt.kind == "tool" and "conversation" in prompt.scopes
            else ()
        ),
    )


def _for_conversation(words: _Words) -> Commands:
    """Return the keys for an answer that applies to the rest of the conversation."""
    what = "whenever this is asked in this conversation"
    return (
        Command(
            "C",
            f"{words.yes}, {what}",
            Answered(True, scope="conversation"),
            spoken="yes conversation",
        ),
        Command(
            "X",
            f"{words.no}, {what}",
            Answered(False, scope="conversation"),
            spoken="no conversation",
        ),
    )


def _keeping(words: _Words, key: str, kept: str) -> Command:
    spoken = "always" if key == "Y" else f"always {key}"
    return Command(
        key,
        f"{words.yes}, and always: {one_line(kept)}",
        Answered(True, remember=kept),
        spoken=spoken,
    )


# --------------------------------------------------------------------------------------------------
# Going back from the review of a form to a question, one question at a time


class Ruled(Answered, frozen=True):
    """An approval with a rule for similar calls: the TOML that the person wrote, and its scope."""

    written: str = ""


class BackTo(WentBack, frozen=True):
    """Go back, repeatedly, until the question with this `index` is reached."""

    index: int = 1


class AsJson(WentBack, frozen=True):
    """Answer the whole question as JSON instead of field by field.

    `begun` is the unsubmitted input of the current field (typed text or selected options), or None.
    """

    begun: Json = None


AS_JSON = Command("j", "answer all fields as JSON", AsJson(), "JSON", "JSON")


class ObjectField(Prompt, frozen=True, kw_only=True):
    """One field of a question whose schema is a flat object, or the review of all its fields."""


class Jump:
    """A pending jump back to a question.

    Each prompt is passed to `passes` before it is displayed.
    """

    def __init__(self) -> None:
        self._from: Prompt | None = None
        self._index = 0

    def begin(self, prompt: Prompt, reply: BackTo) -> Reply:
        """Store the target of the jump and return the reply for the turn."""
        self._from, self._index = prompt, reply.index
        return WentBack()

    def passes(self, prompt: Prompt) -> bool:
        """Return whether the jump continues past this prompt, which is then not displayed."""
        if self._from is None:
            return False
        goes_on = (
            _is_of_same_call(self._from, prompt)
            and prompt.kind == "tool"
            and prompt.index > self._index
            and prompt.can_go_back
        )
        if not goes_on:
            self._from = None
        return goes_on


class OwnWords:
    """Free text typed at the lists of one call, restored when the person returns to a question."""

    def __init__(self) -> None:
        self._asked: Prompt | None = None
        self._words: dict[str, str] = {}

    def of(self, prompt: Prompt) -> str:
        """Return the text that was typed at this question earlier, or an empty string.

        A question from another call clears all stored text.
        """
        if self._asked is None or not _is_of_same_call(self._asked, prompt):
            self._words.clear()
        self._asked = prompt
        return self._words.get(prompt.question.id, "")

    def keep(self, prompt: Prompt, words: str) -> None:
        self._words[prompt.question.id] = words


def _is_of_same_call(one: Prompt, other: Prompt) -> bool:
    return (one.conversation, one.tool, one.arguments) == (
        other.conversation,
        other.tool,
        other.arguments,
    )

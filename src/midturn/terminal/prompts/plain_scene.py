"""Shared parts of plain prompts: opening rows, keys, help, and the transcript row."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from midturn.events.prompt import CallSubject, Prompt, ResultSubject
from midturn.question.answer_type import MultiSelectType, SchemaType, SecretType, SelectType, TextType
from midturn.question.json_value import Json, JsonObject
from midturn.question.reply import Answered, Edited, EndedTurn, Replied, Reply
from midturn.question.text import exact
from midturn.terminal.prompts import keys as keyboard
from midturn.terminal.prompts.accept import (
    Argument,
    ChosenScope,
    NotAccepted,
    accept_argument,
    accept_arguments,
    arguments_of,
    by_rule,
    is_option,
)
from midturn.terminal.prompts.answer_text import covered_text, native, reply_text
from midturn.terminal.prompts.body import PLAIN_GUTTER, body_rows, more_rows, preview_rows, question_rows, rows_shown
from midturn.terminal.prompts.cells import cells, clip, glued, hang, unglued

# ----------------------------------------------------------------------------------------------------------------------
# Messages between a plain prompt and the terminal


EntryKind: TypeAlias = Literal["choice", "text", "hidden"]


class Say(Struct, frozen=True, kw_only=True):
    """Print `rows`, then `ask` without a line end, and read one line.

    `entry` says what is typed: one of few choices, free text, or something that must not be seen.
    """

    rows: Sequence[str] = ()
    ask: str
    entry: EntryKind = "choice"


class Edit(Struct, frozen=True):
    """Let the person edit `text` in their editor; what comes back is the text as it is then, unchanged when the editor failed."""

    text: str
    suffix: str = ".txt"


Saying: TypeAlias = Say | Edit
Dialog: TypeAlias = Generator[Saying, str, Reply]


# ----------------------------------------------------------------------------------------------------------------------
# Free text, line by line: a backslash at the end continues, `:key` alone is a command, `::` begins a line with a colon


CONTINUE = "> "
QUESTION_MARK = "\\?"
"""The input for a text that is a question mark alone."""

_RETURN = keyboard.Command("c", "return to the question", keyboard.KeyStep.HELP)


def read_entry(say: Say, offered: keyboard.Commands) -> Generator[Saying, str, str | keyboard.Command]:
    """Collect lines until one does not end in a backslash; return the text, or the command that was typed."""
    lines: list[str] = []
    while True:
        line = yield say
        command = command_in(line, offered)
        if command:
            return command
        text, goes_on = _continued(unescaped(line))
        lines.append(text)
        if not goes_on:
            return "\n".join(lines)
        say = Say(ask=CONTINUE, entry=say.entry)


def command_in(line: str, offered: keyboard.Commands) -> keyboard.Command | None:
    """Return the command that a whole line is, else None; a question mark alone asks for help, too."""
    return keyboard.find(offered, line.removeprefix(":")) if line.startswith(":") or line == "?" else None


def unescaped(line: str) -> str:
    r"""Return a line as it is meant: `::` at its beginning is one colon, and `\?` a question mark."""
    return line[1:] if line.startswith("::") or line == QUESTION_MARK else line


def read_text(say: Say) -> Generator[Saying, str, str | None]:
    """Collect text on the side (a reply, a reason); `:c` returns None: back to the question."""
    typed = yield from read_entry(say, (_RETURN,))
    return typed if isinstance(typed, str) else None


def _continued(line: str) -> tuple[str, bool]:
    """Split off a backslash at the end: one continues the text, two are one that belongs to it."""
    if not line.endswith("\\"):
        return line, False
    return line[:-1], not line.endswith("\\\\")


# ----------------------------------------------------------------------------------------------------------------------
# A text that is typed whole or kept: the field of plain prompts for text, JSON and edits of what is to be approved


EDITOR = keyboard.Command("e", "edit it in your editor", keyboard.KeyStep.EDIT)

_SHORT = 40


class DraftField(Struct, frozen=True):
    """A field of input: its name, how it is accepted, and the commands that a line may be."""

    noun: str
    accept: Callable[[str], Json]
    offered: keyboard.Commands
    suffix: str = ".txt"


class Draft(Struct, frozen=True):
    """The text so far. Enter alone takes it if `kept`: a skeleton is only there to be looked at and edited. `wrong` if it was refused."""

    text: str = ""
    kept: bool = False
    wrong: bool = False


class Entered(Struct, frozen=True):
    """Accepted input."""

    value: Json


def fill(field: DraftField, draft: Draft, rows: list[str], width: int) -> Generator[Saying, str, Entered | tuple[keyboard.Command, Draft]]:
    """Ask until the text is accepted, or a command other than the editor was typed (with the draft as it is then)."""
    while True:
        say = Say(rows=[*rows, *unglued(hang(hint(field, draft, width), width, "  "))], ask=CONTINUE, entry="text")
        typed = yield from read_entry(say, field.offered)
        if isinstance(typed, keyboard.Command) and typed is not EDITOR:
            return typed, draft
        if isinstance(typed, keyboard.Command):
            draft, rows = _edited(draft, (yield Edit(draft.text, field.suffix)))
            continue
        text = draft.text if not typed and draft.kept else typed
        try:
            return Entered(field.accept(text))
        except NotAccepted as error:
            draft = Draft(text, kept=True, wrong=True) if text else draft
            wrong = [row for line in error.lines for row in hang(f"  {line}", width, "    ")]
            rows = ["Not accepted:", *wrong, *(hang(_KEPT, width, "  ") if text else [])]


def hint(field: DraftField, draft: Draft, width: int) -> str:
    """Say in one line how to type, what Enter alone does, and which commands there are."""
    enter = f" ({_enter(draft.text)})" if draft.kept and not draft.wrong else ""
    keys = ", ".join(glued(f":{command.key} {_word(command)}", width - 3) for command in field.offered)
    return f"Type {field.noun}{enter}. End a line with \\ to continue. Commands: {keys}"


def _word(command: keyboard.Command) -> str:
    """Name what a command does; where text is typed, `?` shows no keys but commands."""
    if command is EDITOR:
        return "editor"
    return "help" if command.key == "?" else command.word or command.title or command.help


def draft_rows(title: str, text: str) -> list[str]:
    """Show a draft behind the gutter."""
    return [title, *(PLAIN_GUTTER + line for line in keyboard.shown_lines(text))]


def _edited(draft: Draft, text: str) -> tuple[Draft, list[str]]:
    """Take back what the editor wrote. It is shown, and sent by nothing but Enter: an editor may fail, or be closed."""
    if text == draft.text:
        return draft, ["The text is as it was."]
    return Draft(text, kept=True), draft_rows("Your text:", text)


def _enter(text: str) -> str:
    return "Enter to keep the draft" if "\n" in text else f"Enter for '{clip(exact(text), _SHORT)}'"


_KEPT = "Your text is kept; Enter shows these errors again, :e edits it."


_RETURN_KEYS = keyboard.Command("c", "return to the question", keyboard.KeyStep.REPLY, word="back to the question")
_AS_JSON = keyboard.Command("j", "edit all arguments as JSON", keyboard.KeyStep.EDIT, word="all as JSON")
_HELP = keyboard.Command("?", "this help", keyboard.KeyStep.HELP)
_EDITING: keyboard.Commands = (_RETURN_KEYS, EDITOR, _HELP)


def edit_subject(prompt: Prompt, width: int, step: keyboard.KeyStep) -> Generator[Saying, str, Reply | None]:
    """Let the person change it, or the rule that they write about it; None when they return to the question."""
    match prompt.subject:
        case CallSubject() if step is keyboard.KeyStep.RULE:
            return (yield from _edit_rule(prompt, width))
        case CallSubject(call) if arguments := arguments_of(prompt):
            return (yield from _edit_arguments(prompt, arguments, cast("JsonObject", call.arguments), width))
        case CallSubject(call):
            return (yield from _edit_json(prompt, call.arguments, width))
        case ResultSubject(content=text):
            entered = yield from _edit(DraftField("the new result", str, _EDITING), Draft(text), draft_rows("Now:", text), width)
            return Edited(entered.value) if isinstance(entered, Entered) else None
        case _:
            return None


def _edit_arguments(prompt: Prompt, arguments: Sequence[Argument], so_far: JsonObject, width: int) -> Generator[Saying, str, Reply | None]:
    """Ask for one argument after the other: Enter alone keeps it as it is."""
    for argument in arguments:
        name = keyboard.one_line(argument.name)
        accepted = partial(accept_argument, prompt, so_far, argument)
        suffix = ".json" if argument.is_json else ".txt"
        field = DraftField(f"the new {name}", accepted, (_RETURN_KEYS, _AS_JSON, EDITOR, _HELP), suffix)
        entered = yield from _edit(field, Draft(argument.text, kept=True), draft_rows(f"{name} is now:", argument.text), width)
        if not isinstance(entered, Entered):
            return None if entered is _RETURN_KEYS else (yield from _edit_json(prompt, so_far, width))
        so_far = cast("JsonObject", entered.value)
    return Edited(so_far)


def _edit_json(prompt: Prompt, arguments: Json, width: int) -> Generator[Saying, str, Reply | None]:
    text = keyboard.pretty(arguments)
    field = DraftField("the new arguments in JSON", partial(accept_arguments, prompt), _EDITING, ".json")
    entered = yield from _edit(field, Draft(text), draft_rows("Now:", text), width)
    return Edited(entered.value) if isinstance(entered, Entered) else None


def _edit(field: DraftField, draft: Draft, rows: list[str], width: int) -> Generator[Saying, str, Entered | keyboard.Command]:
    """Ask until something is accepted, or a command leads away."""
    while True:
        entered = yield from fill(field, draft, rows, width)
        if isinstance(entered, Entered):
            return entered
        command, draft = entered
        if command is not _HELP:
            return command
        rows = [f"  :{offered.key} - {offered.help}" for offered in field.offered if offered is not _HELP]


def _edit_rule(prompt: Prompt, width: int) -> Generator[Saying, str, Reply | None]:
    if prompt.rule is None:
        return None
    chosen = ChosenScope(prompt.rule)
    offered = (*((_SCOPE,) if chosen.can_change else ()), _RETURN_KEYS, EDITOR, _HELP)
    field = DraftField("the rule in TOML", str, offered, ".toml")
    draft = Draft(prompt.rule.text, kept=True)
    rows = [*draft_rows("Now:", draft.text), *_said_of_rule(chosen, draft, width)]
    while True:
        entered = yield from fill(field, draft, rows, width)
        if not isinstance(entered, Entered):
            command, draft = entered
            if command is _RETURN_KEYS:
                return None
            if command is _SCOPE:
                chosen.change()
                rows = _said_of_rule(chosen, draft, width)
                continue
            rows = [f"  :{each.key} - {each.help}" for each in offered if each is not _HELP]
            continue
        try:
            return by_rule(prompt.rule, str(entered.value), chosen.scope)
        except NotAccepted as error:
            draft, rows = Draft(str(entered.value), kept=True), [f"Not accepted: {line}" for line in error.lines]


_SCOPE = keyboard.Command("w", "change where the rule holds", keyboard.KeyStep.EDIT, word="change where it holds")


def _said_of_rule(chosen: ChosenScope, draft: Draft, width: int) -> list[str]:
    return [row for sentence in chosen.said(draft.text) for row in hang(sentence, width, "  ")]


INDENT = "  "
_LONG_DEFAULT = 40


class Scene:
    """One prompt in plain lines of `width` cells, on a screen with `height` rows if there is one."""

    def __init__(self, prompt: Prompt, width: int, height: int = 0) -> None:
        self.prompt = native(prompt)
        self.width = width
        rows = body_rows(self.prompt, width, PLAIN_GUTTER)
        shown = rows_shown(len(rows), height)
        self.shown, self.rest = rows[:shown], rows[shown:]
        offered = tuple(map(self._unshadowed, keyboard.commands(self.prompt, len(self.rest))))
        plain = self.prompt is prompt
        self.commands: keyboard.Commands = (
            offered if plain else tuple(one for one in offered if one.does is not keyboard.KeyStep.GIVE_REASON)
        )
        self.viewed = not self.rest
        self.has_paged = False
        """Whether the rest was shown: a `q` after it, as a pager takes it, leads back to the question."""

    def _unshadowed(self, command: keyboard.Command) -> keyboard.Command:
        """Return a command under the word for it, where an option of the question is named like its key."""
        kind = self.prompt.question.answer_type
        is_list = isinstance(kind, SelectType | MultiSelectType)
        if command is keyboard.LATER and is_list and is_option(command.key, kind.options):
            return keyboard.LATER_IN_WORDS
        return command

    def say(self, rows: Sequence[str], ask: str, entry: EntryKind = "choice") -> Say:
        """Print rows, then ask; what does not fit into one row is broken between words."""
        broken = "\n".join(unglued(hang(ask, max(1, self.width - 1), INDENT)))
        return Say(rows=[*rows], ask=f"{broken} ", entry=entry)

    def wrapped(self, lines: Sequence[str]) -> list[str]:
        """Break at words what is too long for a row."""
        return [row for line in lines for row in hang(line, self.width, INDENT)]

    def keys(self) -> str:
        """Name the keys in words: `y yes, n no, r reply, s end turn, ? help`. No row ends between a key and its words."""
        return ", ".join(glued(spoken_key(command), self.width - len(INDENT) - 2) for command in self.commands)

    def opening(self) -> list[str]:
        """Return header, context and question: what is printed once."""
        question = question_rows(self.prompt, self.width)
        more = more_rows("...", len(self.rest), self._view_keys(), self.width)
        return [*self._header(), *self.shown, *more, *question, *self._time_left(), *self._remembering(), *self._error()]

    def transcript(self, reply: Reply) -> str:
        """Return the row that stays: what was answered, and whether it was approved without having been seen whole."""
        approved = isinstance(reply, Edited) or (isinstance(reply, Answered) and reply.value is True)
        unseen = f" ({len(self.rest)} rows were not viewed)" if approved and not self.viewed else ""
        return f"Answer: {reply_text(self.prompt, reply)}{unseen}"

    def covered(self, reply: Reply) -> list[str]:
        """Return the rows below that one: what a remembered answer covers."""
        text = covered_text(self.prompt, reply)
        return hang(text, self.width, "  ") if text else []

    def act(self, command: keyboard.Command) -> Generator[Saying, str, Reply | list[str]]:  # noqa: PLR0911 (one for each step)
        """Do what a key says: a reply, or rows to show before the question is asked again."""
        match command.does:
            case keyboard.KeyStep.HELP:
                return self.help(self.commands)
            case keyboard.KeyStep.VIEW:
                self.viewed = self.has_paged = True
                previews = preview_rows(self.prompt, self.width, PLAIN_GUTTER)
                return [*(self.rest or ([] if previews else body_rows(self.prompt, self.width, PLAIN_GUTTER))), *previews]
            case keyboard.KeyStep.REPLY:
                text = yield from read_text(self.say((), _REPLY, "text"))
                return self.opening() if text is None else Replied(text.strip() or None)
            case keyboard.KeyStep.GIVE_REASON:
                text = yield from read_text(self.say((), _REASON, "text"))
                return self.opening() if text is None else Answered(False, reason=text.strip() or None)
            case keyboard.KeyStep.EDIT | keyboard.KeyStep.RULE as step:
                return (yield from edit_subject(self.prompt, self.width, step)) or self.opening()
            case keyboard.KeyStep.OTHER | keyboard.KeyStep.ANSWER:
                raise ValueError("Only lists offer other words, and only menus lead to an answer.")
            case EndedTurn():
                typed = yield self.say((), _ENDS)
                return EndedTurn() if keyboard.find_named(self.commands, typed.strip()) is command else self.opening()
            case reply:
                return reply

    def help(self, offered: keyboard.Commands, prefix: str = "") -> list[str]:
        """Return a row for every key."""
        spoken = {command.key: f" (or: {command.spoken})" for command in offered if command.spoken and not prefix}
        rows = [f"  {prefix}{command.key}{spoken.get(command.key, '')} - {command.help}" for command in offered]
        rows += [f"  {QUESTION_MARK} - a question mark as the text"] if prefix else []
        leave = f"  Ctrl-C or Ctrl-D - {keyboard.leaves(self.prompt)}"
        return [wrapped for row in (*rows, leave) for wrapped in hang(row, self.width, "      ")]

    def short(self, text: str) -> str:
        """Cut a default to what can stand inside a line."""
        return clip(text, _LONG_DEFAULT)

    def _time_left(self) -> list[str]:
        """Say how long there is left for an answer."""
        left = self.prompt.time_left()
        return hang(f"To be answered: {left}.", self.width, INDENT) if left else []

    def _remembering(self) -> list[str]:
        """Say what the words cover that hold for more than this question."""
        if not self.prompt.may_remember:
            return []
        words = "Always:" if self.prompt.always else "Always and never: yes and no to"
        return hang(f"{words} {keyboard.covered(self.prompt)}.", self.width, INDENT)

    def _view_keys(self) -> str:
        """Name what shows the rest: where text is typed, keys begin with a colon."""
        return ":v" if isinstance(self.prompt.question.answer_type, TextType | SecretType | SchemaType) else "v"

    def _error(self) -> list[str]:
        """Say why the last reply was not taken."""
        if self.prompt.error is None:
            return []
        first, *more = keyboard.split_lines(self.prompt.error)
        rows = [f"Not accepted: {exact(first)}", *(f"  {exact(line)}" for line in more)]
        return [wrapped for row in rows for wrapped in hang(row, self.width, "  ")]

    def _header(self) -> list[str]:
        """Say who asks; every row of it stands behind the gutter."""
        prompt = self.prompt
        place = f", question {prompt.index} of {prompt.total}" if prompt.total > 1 else ""
        optional = " (optional)" if prompt.question.optional else ""
        text = f"{keyboard.asked_by(prompt)} asks{place}{keyboard.quoted_label(prompt)}{optional}:"
        return [f"{PLAIN_GUTTER}{row}" for row in hang(text, max(1, self.width - cells(PLAIN_GUTTER)), INDENT)]


def spoken_key(command: keyboard.Command) -> str:
    """Name a key and the words for it."""
    if command is keyboard.HELP:
        return "? help"
    if command.spoken:
        return f"{command.key} {command.spoken}"
    return f"{command.key} {command.word or command.title}".rstrip()


_REPLY = "Your reply, Enter alone to send none, :c to return to the question:"
_REASON = "The reason, Enter alone to give none, :c to return to the question:"
_ENDS = "Type s again to end the turn, or Enter alone to return to the question:"

"""Shared parts of plain prompts: opening rows, keys, help, and the transcript row."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from midturn.events.prompt import CallSubject, Prompt, ResultSubject
from midturn.question.answer_type import (
    MultiSelectType,
    SchemaType,
    SecretType,
    SelectType,
    TextType,
)
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
from midturn.terminal.prompts.body import (
    PLAIN_GUTTER,
    body_rows,
    more_rows,
    preview_rows,
    question_rows,
    rows_shown,
)
from midturn.terminal.prompts.cells import cells, clip, glued, hang, unglued

# --------------------------------------------------------------------------------------------------
# Messages between a plain prompt and the terminal


EntryKind: TypeAlias = Literal["choice", "text", "hidden"]


class Say(Struct, frozen=True, kw_only=True):
    """Print `rows`, print `ask` without a line break, and read one line.

    `entry` is the kind of input: one of few choices, free text, or hidden text.
    """

    rows: Sequence[str] = ()
    ask: str
    entry: EntryKind = "choice"


class Edit(Struct, frozen=True):
    """Open `text` in the user's editor.

    The reply is the edited text, or the unchanged text if the editor failed.
    """

    text: str
    suffix: str = ".txt"


Saying: TypeAlias = Say | Edit
Dialog: TypeAlias = Generator[Saying, str, Reply]


# --------------------------------------------------------------------------------------------------
# Free text, line by line. A backslash at the end of a line continues the text, a line with only
# `:key` is a command, and `::` starts a line with a colon.


CONTINUE = "> "
QUESTION_MARK = "\\?"
"""Input that stands for text consisting of one question mark."""

_RETURN = keyboard.Command("c", "return to the question", keyboard.KeyStep.HELP)


def read_entry(
    say: Say, offered: keyboard.Commands
) -> Generator[Saying, str, str | keyboard.Command]:
    """Read lines until a line does not end in a backslash.

    Return the text, or the typed command.
    """
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
    """Return the command if the whole line is a command, else None.

    A single question mark is the command for help.
    """
    return (
        keyboard.find(offered, line.removeprefix(":"))
        if line.startswith(":") or line == "?"
        else None
    )


def unescaped(line: str) -> str:
    r"""Remove escapes: `::` at the start is one colon, and `\?` is a question mark."""
    return line[1:] if line.startswith("::") or line == QUESTION_MARK else line


def read_text(say: Say) -> Generator[Saying, str, str | None]:
    """Read text for a reply or a reason. Return None if `:c` was typed."""
    typed = yield from read_entry(say, (_RETURN,))
    return typed if isinstance(typed, str) else None


def _continued(line: str) -> tuple[str, bool]:
    """Remove a backslash at the end and return whether it continues the text.

    Two backslashes are one literal backslash.
    """
    if not line.endswith("\\"):
        return line, False
    return line[:-1], not line.endswith("\\\\")


# --------------------------------------------------------------------------------------------------
# Fields of plain prompts, with a draft: text, JSON, and edits of an approval's subject


EDITOR = keyboard.Command("e", "edit it in your editor", keyboard.KeyStep.EDIT)

_MAX_HINT_TEXT = 40


class DraftField(Struct, frozen=True):
    """A field: its name, the check of its input, and its commands."""

    noun: str
    accept: Callable[[str], Json]
    offered: keyboard.Commands
    suffix: str = ".txt"


class FieldText(Struct, frozen=True):
    """The text of a field that is not yet accepted.

    If `kept` is true, an empty line accepts the text. Otherwise the text is a template that must be
    changed first. `wrong` is true if the text was rejected.
    """

    text: str = ""
    kept: bool = False
    wrong: bool = False


class Entered(Struct, frozen=True):
    """Accepted input."""

    value: Json


def fill(
    field: DraftField, draft: FieldText, rows: list[str], width: int
) -> Generator[Saying, str, Entered | tuple[keyboard.Command, FieldText]]:
    """Ask until the text is valid.

    If a command other than the editor is typed, return it with the current draft.
    """
    while True:
        say = Say(
            rows=[*rows, *unglued(hang(hint(field, draft, width), width, "  "))],
            ask=CONTINUE,
            entry="text",
        )
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
            draft = FieldText(text, kept=True, wrong=True) if text else draft
            wrong = [row for line in error.lines for row in hang(f"  {line}", width, "    ")]
            rows = ["Not accepted:", *wrong, *(hang(_KEPT, width, "  ") if text else [])]


def hint(field: DraftField, draft: FieldText, width: int) -> str:
    """Return the hint: the input format, the effect of an empty line, and the commands."""
    enter = f" ({_enter(draft.text)})" if draft.kept and not draft.wrong else ""
    keys = ", ".join(
        glued(f":{command.key} {_word(command)}", width - 3) for command in field.offered
    )
    return f"Type {field.noun}{enter}. End a line with \\ to continue. Commands: {keys}"


def _word(command: keyboard.Command) -> str:
    """Return the short name of a command. In a text field `?` lists commands, not keys."""
    if command is EDITOR:
        return "editor"
    return "help" if command.key == "?" else command.word or command.title or command.help


def draft_rows(title: str, text: str) -> list[str]:
    """Return the draft with each line after the gutter."""
    return [title, *(PLAIN_GUTTER + line for line in keyboard.shown_lines(text))]


def _edited(draft: FieldText, text: str) -> tuple[FieldText, list[str]]:
    """Return the draft with the text from the editor, and rows that display it.

    The text is submitted only when the person presses Enter, because an editor can fail.
    """
    if text == draft.text:
        return draft, ["The text is unchanged."]
    return FieldText(text, kept=True), draft_rows("Your text:", text)


def _enter(text: str) -> str:
    return (
        "Enter to keep the draft"
        if "\n" in text
        else f"Enter for '{clip(exact(text), _MAX_HINT_TEXT)}'"
    )


_KEPT = "Your text is kept; Enter shows these errors again, :e edits it."


_RETURN_KEYS = keyboard.Command(
    "c", "return to the question", keyboard.KeyStep.REPLY, word="back to the question"
)
_AS_JSON = keyboard.Command(
    "j", "edit all arguments as JSON", keyboard.KeyStep.EDIT, word="all as JSON"
)
_HELP = keyboard.Command("?", "this help", keyboard.KeyStep.HELP)
_EDITING: keyboard.Commands = (_RETURN_KEYS, EDITOR, _HELP)


def edit_subject(
    prompt: Prompt, width: int, step: keyboard.KeyStep
) -> Generator[Saying, str, Reply | None]:
    """Let the person edit the subject of an approval, or the rule for it.

    Return None if the person returns to the question.
    """
    match prompt.subject:
        case CallSubject() if step is keyboard.KeyStep.RULE:
            return (yield from _edit_rule(prompt, width))
        case CallSubject(call) if arguments := arguments_of(prompt):
            return (
                yield from _edit_arguments(
                    prompt, arguments, cast("JsonObject", call.arguments), width
                )
            )
        case CallSubject(call):
            return (yield from _edit_json(prompt, call.arguments, width))
        case ResultSubject(content=text):
            entered = yield from _edit(
                DraftField("the new result", str, _EDITING),
                FieldText(text),
                draft_rows("Now:", text),
                width,
            )
            return Edited(entered.value) if isinstance(entered, Entered) else None
        case _:
            return None


def _edit_arguments(
    prompt: Prompt, arguments: Sequence[Argument], so_far: JsonObject, width: int
) -> Generator[Saying, str, Reply | None]:
    """Ask for the arguments one by one. Enter alone keeps the current value."""
    for argument in arguments:
        name = keyboard.one_line(argument.name)
        accepted = partial(accept_argument, prompt, so_far, argument)
        suffix = ".json" if argument.is_json else ".txt"
        field = DraftField(
            f"the new {name}", accepted, (_RETURN_KEYS, _AS_JSON, EDITOR, _HELP), suffix
        )
        entered = yield from _edit(
            field,
            FieldText(argument.text, kept=True),
            draft_rows(f"{name} is now:", argument.text),
            width,
        )
        if not isinstance(entered, Entered):
            return (
                None if entered is _RETURN_KEYS else (yield from _edit_json(prompt, so_far, width))
            )
        so_far = cast("JsonObject", entered.value)
    return Edited(so_far)


def _edit_json(prompt: Prompt, arguments: Json, width: int) -> Generator[Saying, str, Reply | None]:
    text = keyboard.pretty(arguments)
    field = DraftField(
        "the new arguments in JSON", partial(accept_arguments, prompt), _EDITING, ".json"
    )
    entered = yield from _edit(field, FieldText(text), draft_rows("Now:", text), width)
    return Edited(entered.value) if isinstance(entered, Entered) else None


def _edit(
    field: DraftField, draft: FieldText, rows: list[str], width: int
) -> Generator[Saying, str, Entered | keyboard.Command]:
    """Ask until the input is valid or a command closes the field."""
    while True:
        entered = yield from fill(field, draft, rows, width)
        if isinstance(entered, Entered):
            return entered
        command, draft = entered
        if command is not _HELP:
            return command
        rows = [
            f"  :{offered.key} - {offered.help}"
            for offered in field.offered
            if offered is not _HELP
        ]


def _edit_rule(prompt: Prompt, width: int) -> Generator[Saying, str, Reply | None]:
    if prompt.rule is None:
        return None
    chosen = ChosenScope(prompt.rule)
    offered = (*((_SCOPE,) if chosen.can_change else ()), _RETURN_KEYS, EDITOR, _HELP)
    field = DraftField("the rule in TOML", str, offered, ".toml")
    draft = FieldText(prompt.rule.text, kept=True)
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
            draft, rows = (
                FieldText(str(entered.value), kept=True),
                [f"Not accepted: {line}" for line in error.lines],
            )


_SCOPE = keyboard.Command(
    "w", "change where the rule applies", keyboard.KeyStep.EDIT, word="change where it applies"
)


def _said_of_rule(chosen: ChosenScope, draft: FieldText, width: int) -> list[str]:
    return [row for sentence in chosen.said(draft.text) for row in hang(sentence, width, "  ")]


INDENT = "  "
_MAX_DEFAULT = 40


class PromptBase:
    """One prompt in plain lines of `width` cells.

    `height` limits the number of context rows. 0 means no limit.
    """

    def __init__(self, prompt: Prompt, width: int, height: int = 0) -> None:
        self.prompt = native(prompt)
        self.width = width
        rows = body_rows(self.prompt, width, PLAIN_GUTTER)
        shown = rows_shown(len(rows), height)
        self.shown, self.rest = rows[:shown], rows[shown:]
        offered = tuple(map(self._unshadowed, keyboard.commands(self.prompt, len(self.rest))))
        plain = self.prompt is prompt
        self.commands: keyboard.Commands = (
            offered
            if plain
            else tuple(one for one in offered if one.does is not keyboard.KeyStep.GIVE_REASON)
        )
        self.viewed = not self.rest
        self.has_paged = False
        """Whether the rest of the context was shown. If so, `q` returns to the question, as in a
        pager.
        """

    def _unshadowed(self, command: keyboard.Command) -> keyboard.Command:
        """Return the command under its long name if its key is also the name of an option."""
        kind = self.prompt.question.answer_type
        is_list = isinstance(kind, SelectType | MultiSelectType)
        if command is keyboard.LATER and is_list and is_option(command.key, kind.options):
            return keyboard.LATER_IN_WORDS
        return command

    def say(self, rows: Sequence[str], ask: str, entry: EntryKind = "choice") -> Say:
        """Return the message that prints rows and then asks. A long prompt is wrapped at spaces."""
        broken = "\n".join(unglued(hang(ask, max(1, self.width - 1), INDENT)))
        return Say(rows=[*rows], ask=f"{broken} ", entry=entry)

    def wrapped(self, lines: Sequence[str]) -> list[str]:
        """Wrap long lines at spaces."""
        return [row for line in lines for row in hang(line, self.width, INDENT)]

    def keys(self) -> str:
        """Return the keys in words, such as `y yes, n no, r reply, s end turn, ? help`.

        A key is never separated from its words by a line break.
        """
        return ", ".join(
            glued(spoken_key(command), self.width - len(INDENT) - 2) for command in self.commands
        )

    def opening(self) -> list[str]:
        """Return the rows that are printed once: header, context and question."""
        question = question_rows(self.prompt, self.width)
        more = more_rows("...", len(self.rest), self._view_keys(), self.width)
        return [
            *self._header(),
            *self.shown,
            *more,
            *question,
            *self._time_left(),
            *self._remembering(),
            *self._error(),
        ]

    def transcript(self, reply: Reply) -> str:
        """Return the transcript row with the answer.

        After an approval, the row also states how many rows were not viewed.
        """
        approved = isinstance(reply, Edited) or (
            isinstance(reply, Answered) and reply.value is True
        )
        unseen = f" ({len(self.rest)} rows were not viewed)" if approved and not self.viewed else ""
        return f"Answer: {reply_text(self.prompt, reply)}{unseen}"

    def covered(self, reply: Reply) -> list[str]:
        """Return the rows below the transcript row: the scope of a remembered answer."""
        text = covered_text(self.prompt, reply)
        return hang(text, self.width, "  ") if text else []

    def act(self, command: keyboard.Command) -> Generator[Saying, str, Reply | list[str]]:  # noqa: PLR0911 (one for each step)
        """Run a command. Return its reply, or rows to print before the question is asked again."""
        match command.does:
            case keyboard.KeyStep.HELP:
                return self.help(self.commands)
            case keyboard.KeyStep.VIEW:
                self.viewed = self.has_paged = True
                previews = preview_rows(self.prompt, self.width, PLAIN_GUTTER)
                return [
                    *(
                        self.rest
                        or ([] if previews else body_rows(self.prompt, self.width, PLAIN_GUTTER))
                    ),
                    *previews,
                ]
            case keyboard.KeyStep.REPLY:
                text = yield from read_text(self.say((), _REPLY, "text"))
                return self.opening() if text is None else Replied(text.strip() or None)
            case keyboard.KeyStep.GIVE_REASON:
                text = yield from read_text(self.say((), _REASON, "text"))
                return (
                    self.opening() if text is None else Answered(False, reason=text.strip() or None)
                )
            case keyboard.KeyStep.EDIT | keyboard.KeyStep.RULE as step:
                return (yield from edit_subject(self.prompt, self.width, step)) or self.opening()
            case keyboard.KeyStep.OTHER | keyboard.KeyStep.ANSWER:
                raise ValueError("OTHER is valid only in a list, and ANSWER only in a menu.")
            case EndedTurn():
                typed = yield self.say((), _ENDS)
                return (
                    EndedTurn()
                    if keyboard.find_named(self.commands, typed.strip()) is command
                    else self.opening()
                )
            case reply:
                return reply

    def help(self, offered: keyboard.Commands, prefix: str = "") -> list[str]:
        """Return one row for each key."""
        spoken = {
            command.key: f" (or: {command.spoken})"
            for command in offered
            if command.spoken and not prefix
        }
        rows = [
            f"  {prefix}{command.key}{spoken.get(command.key, '')} - {command.help}"
            for command in offered
        ]
        rows += [f"  {QUESTION_MARK} - a question mark as the text"] if prefix else []
        leave = f"  Ctrl-C or Ctrl-D - {keyboard.leaves(self.prompt)}"
        return [wrapped for row in (*rows, leave) for wrapped in hang(row, self.width, "      ")]

    def short(self, text: str) -> str:
        """Shorten a default value, so that it fits on a line."""
        return clip(text, _MAX_DEFAULT)

    def _time_left(self) -> list[str]:
        """Return the time left for an answer, in words."""
        left = self.prompt.time_left()
        return hang(f"Time to answer: {left}.", self.width, INDENT) if left else []

    def _remembering(self) -> list[str]:
        """Return a description of the answers that can be remembered."""
        if not self.prompt.may_remember:
            return []
        words = "Always:" if self.prompt.always else "Always and never: yes and no to"
        return hang(f"{words} {keyboard.covered(self.prompt)}.", self.width, INDENT)

    def _view_keys(self) -> str:
        """Return the key that shows the rest of the context.

        In text fields, commands start with a colon.
        """
        return (
            ":v"
            if isinstance(self.prompt.question.answer_type, TextType | SecretType | SchemaType)
            else "v"
        )

    def _error(self) -> list[str]:
        """Return why the last reply was rejected."""
        if self.prompt.error is None:
            return []
        first, *more = keyboard.split_lines(self.prompt.error)
        rows = [f"Not accepted: {exact(first)}", *(f"  {exact(line)}" for line in more)]
        return [wrapped for row in rows for wrapped in hang(row, self.width, "  ")]

    def _header(self) -> list[str]:
        """Return the asker, each row after the gutter."""
        prompt = self.prompt
        place = f", question {prompt.index} of {prompt.total}" if prompt.total > 1 else ""
        optional = " (optional)" if prompt.question.optional else ""
        text = f"{keyboard.asked_by(prompt)} asks{place}{keyboard.quoted_label(prompt)}{optional}:"
        return [
            f"{PLAIN_GUTTER}{row}"
            for row in hang(text, max(1, self.width - cells(PLAIN_GUTTER)), INDENT)
        ]


def spoken_key(command: keyboard.Command) -> str:
    """Return a key and its name."""
    if command is keyboard.HELP:
        return "? help"
    if command.spoken:
        return f"{command.key} {command.spoken}"
    return f"{command.key} {command.word or command.title}".rstrip()


_REPLY = "Your reply (Enter to send none, :c to return to the question):"
_REASON = "The reason (Enter to give none, :c to return to the question):"
_ENDS = "Type s again to end the turn, or press Enter to return to the question:"

"""A text that is typed whole or kept: the field of plain prompts for text, JSON and edits of what is to be approved."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

from msgspec import Struct

from midturn.core.json_value import Json
from midturn.core.prompt import Prompt
from midturn.core.reply import Edited
from midturn.core.subject import CallSubject, ResultSubject
from midturn.core.visible import exact
from midturn.prompts.accept import NotAccepted, accept_arguments
from midturn.prompts.body import PLAIN_GUTTER
from midturn.prompts.cells import clip, glued, hang, unglued
from midturn.prompts.content import pretty, shown_lines
from midturn.prompts.keys import Command, Commands, KeyStep
from midturn.prompts.plain.dialog import Edit, Say, Saying
from midturn.prompts.plain.entry import CONTINUE, read_entry

EDITOR = Command("e", "edit it in your editor", KeyStep.EDIT)

_SHORT = 40


class DraftField(Struct, frozen=True):
    """What is typed into: how it is named, how it is accepted, and which commands a line may be."""

    noun: str
    accept: Callable[[str], Json]
    offered: Commands
    suffix: str = ".txt"


class Draft(Struct, frozen=True):
    """The text so far. Enter alone takes it if `kept`: a skeleton is only there to be looked at and edited. `wrong` if it was refused."""

    text: str = ""
    kept: bool = False
    wrong: bool = False


class Entered(Struct, frozen=True):
    """What was typed, accepted."""

    value: Json


def fill(field: DraftField, draft: Draft, rows: list[str], width: int) -> Generator[Saying, str, Entered | tuple[Command, Draft]]:
    """Ask until the text is accepted, or a command other than the editor was typed (with the draft as it is then)."""
    while True:
        say = Say(rows=[*rows, *unglued(hang(hint(field, draft, width), width, "  "))], ask=CONTINUE, entry="text")
        typed = yield from read_entry(say, field.offered)
        if isinstance(typed, Command) and typed.does is not KeyStep.EDIT:
            return typed, draft
        if isinstance(typed, Command):
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


def _word(command: Command) -> str:
    """Name what a command does; where text is typed, `?` shows no keys but commands."""
    if command is EDITOR:
        return "editor"
    return "help" if command.key == "?" else command.word or command.title or command.help


def draft_rows(title: str, text: str) -> list[str]:
    """Show a draft behind the gutter."""
    return [title, *(PLAIN_GUTTER + line for line in shown_lines(text))]


def _edited(draft: Draft, text: str) -> tuple[Draft, list[str]]:
    """Take back what the editor wrote. It is shown, and sent by nothing but Enter: an editor may fail, or be closed."""
    if text == draft.text:
        return draft, ["The text is as it was."]
    return Draft(text, kept=True), draft_rows("Your text:", text)


def _enter(text: str) -> str:
    return "Enter to keep the draft" if "\n" in text else f"Enter for '{clip(exact(text), _SHORT)}'"


_KEPT = "Your text is kept; Enter shows these errors again, :e edits it."


_RETURN = Command("c", "return to the question", KeyStep.REPLY, word="back to the question")
_HELP = Command("?", "this help", KeyStep.HELP)


def edit_subject(prompt: Prompt, width: int) -> Generator[Saying, str, Edited | None]:
    """Let the person change it; None when they return to the question."""
    match prompt.subject:
        case CallSubject(call):
            field = DraftField("the new arguments in JSON", partial(accept_arguments, prompt), (_RETURN, EDITOR, _HELP), ".json")
            text = pretty(call.arguments)
        case ResultSubject(content=text):
            field = DraftField("the new result", str, (_RETURN, EDITOR, _HELP))
        case _:
            return None
    draft, rows = Draft(text), draft_rows("Now:", text)
    while True:
        entered = yield from fill(field, draft, rows, width)
        if isinstance(entered, Entered):
            return Edited(entered.value)
        command, draft = entered
        if command is _RETURN:
            return None
        rows = ["  :c - return to the question", "  :e - edit it in your editor"]

"""The plain dialogue of any prompt, and those of a yes or no and of a review."""

from __future__ import annotations

from typing import assert_never

from msgspec import UNSET

from midturn.prompts.accept import EMPTY_SECRET, EMPTY_TEXT, NotAccepted, accept, accept_json, accept_number, empty_once
from midturn.prompts.cells import glued, hang
from midturn.prompts.content import initial, one_line, pretty, skipped, yes_no_default
from midturn.prompts.keys import HELP, BackTo, Command, Commands, KeyStep, find, find_named
from midturn.prompts.native import expected, is_number, is_text, number_text, shape, wanted
from midturn.prompts.plain_scene import (
    EDITOR,
    Dialog,
    Draft,
    DraftField,
    Entered,
    Scene,
    command_in,
    draft_rows,
    fill,
    spoken_key,
    unescaped,
)
from midturn.prompts.plain_select import multi_select, select
from midturn.question.answer_type import BooleanType, MultiSelectType, SchemaType, SecretType, SelectType, TextType
from midturn.question.reply import Answered, Submitted
from midturn.record.prompt import FormSubject, reviewed_places
from midturn.values.json_value import Json
from midturn.values.secret import SecretValue

# ----------------------------------------------------------------------------------------------------------------------
# Text, JSON under a schema, and secrets, line by line


_EMPTY = Command("empty", "send an empty text", Answered(""), word="text")


def text(scene: Scene) -> Dialog:
    """Ask for a text; Enter alone takes the default, and sends an empty text where there is none."""
    start = initial(scene.prompt)
    draft = Draft(start, kept=True) if isinstance(start, str) else Draft()
    return (yield from _text(scene, draft, ""))


def _text(scene: Scene, draft: Draft, about: str) -> Dialog:
    """Ask for a text of which `about` says what it must be like; an empty one that is not called for is refused once."""
    empty = empty_once(scene.prompt)

    def answered(typed: str) -> Json:
        value = accept(scene.prompt, typed)
        if not typed and empty.now():
            raise NotAccepted([EMPTY_TEXT])
        return value

    offered = _offered(scene.commands, (_EMPTY,) if draft.text else ())
    noun = f"your answer, {about}" if about else "your answer"
    return (yield from _fill(scene, DraftField(noun, answered, offered), draft, _multiline("Draft:", draft.text)))


def schema(scene: Scene, answer_type: SchemaType) -> Dialog:
    """Ask for JSON; what does not fit the schema is kept, with up to three errors by their paths."""
    start = initial(scene.prompt)
    about = expected(answer_type.schema)
    if is_number(answer_type.schema):
        draft = Draft() if start is UNSET else Draft(number_text(start), kept=True)
        field = DraftField(f"your answer, {about}", lambda typed: accept_number(scene.prompt, typed), _offered(scene.commands))
        return (yield from _fill(scene, field, draft, []))
    if is_text(answer_type.schema):
        return (yield from _text(scene, Draft(start, kept=True) if isinstance(start, str) else Draft(), about))
    draft = Draft(shape(answer_type.schema)) if start is UNSET else Draft(pretty(start), kept=True)
    field = DraftField("your answer", lambda typed: accept_json(scene.prompt, typed), _offered(scene.commands), ".json")
    title = "Answer in JSON. Draft:" if draft.kept else "Answer in JSON of this shape:"
    rows = draft_rows(title, draft.text) if draft.text else [f"Answer with {wanted(answer_type.schema)}."]
    return (yield from _fill(scene, field, draft, rows))


def secret(scene: Scene) -> Dialog:
    """Ask for a secret; nothing of it is shown, not even its length."""
    keys = ", ".join(glued(f":{spoken_key(command)}", scene.width - 4) for command in scene.commands)
    rows = scene.opening()
    empty = empty_once(scene.prompt)
    while True:
        typed = yield scene.say(rows, f"Hidden input ({keys}):", "hidden")
        command = command_in(typed, scene.commands)
        if command is None and not typed and empty.now():
            rows = scene.wrapped([f"{EMPTY_SECRET}."])
            continue
        if command is None:
            return Answered(SecretValue(unescaped(typed)))
        done = scene.help(scene.commands, ":") if command is HELP else (yield from scene.act(command))
        if not isinstance(done, list):
            return done
        rows = done


def _fill(scene: Scene, field: DraftField, draft: Draft, about: list[str]) -> Dialog:
    """Ask until the text is accepted; `about`, what is asked for or there already, is shown below the question."""
    rows = [*scene.opening(), *about]
    while True:
        entered = yield from fill(field, draft, rows, scene.width)
        if isinstance(entered, Entered):
            return Answered(entered.value)
        command, draft = entered
        done = scene.help(field.offered, ":") if command is HELP else (yield from scene.act(command))
        if not isinstance(done, list):
            return done
        rows = done if command is HELP or command.does is KeyStep.VIEW else [*done, *about]


def _offered(own: Commands, more: Commands = ()) -> Commands:
    """Return the commands of a text field: the prompt's, the editor before the help."""
    return (*(command for command in own if command is not HELP), *more, EDITOR, HELP)


def _multiline(title: str, text: str) -> list[str]:
    return draft_rows(title, text) if "\n" in text else []


def plain_dialog(scene: Scene) -> Dialog:  # noqa: PLR0911 (one for each type of answer)
    """Return the dialogue that asks this prompt: by its kind, then by the type of its answer."""
    if scene.prompt.kind == "review":
        return review(scene)
    match scene.prompt.question.answer_type:
        case BooleanType():
            return boolean(scene)
        case SelectType() as answer_type:
            return select(scene, answer_type)
        case MultiSelectType() as answer_type:
            return multi_select(scene, answer_type)
        case TextType():
            return text(scene)
        case SecretType():
            return secret(scene)
        case SchemaType() as answer_type:
            return schema(scene, answer_type)
        case _ as other:
            assert_never(other)


def boolean(scene: Scene) -> Dialog:
    """Ask until one of the keys is typed. Enter takes the default of a question, and never approves."""
    default = yes_no_default(scene.prompt)
    enter = "-" if skipped(scene.prompt) else "" if default is None else "y" if default else "n"
    ask = f"Type {scene.keys()}{f' (Enter for {enter})' if enter else ''}:"
    rows = scene.opening()
    while True:
        typed = (yield scene.say(rows, ask)).strip()
        command = find_named(scene.commands, typed) if typed else find(scene.commands, enter)
        if command is None:
            rows = hang(_refusal(typed, scene.commands), scene.width, "  ")
            continue
        done = yield from scene.act(command)
        if not isinstance(done, list):
            return done
        rows = done


def _refusal(typed: str, offered: Commands) -> str:
    if not typed:
        return f"There is no default: type one of {', '.join(command.key for command in offered)}."
    return f"{one_line(typed)} is not an option; type ? for help."


def review(scene: Scene) -> Dialog:
    """Ask until the answers are sent with Enter, a row is named to go back to, or one of the keys is typed."""
    places = reviewed_places(scene.prompt.subject) if isinstance(scene.prompt.subject, FormSubject) else []
    ask = f"Press Enter to send, type the number of a row to go back to it, or {scene.keys()}:"
    rows = scene.opening()
    while True:
        typed = (yield scene.say(rows, ask)).strip()
        if not typed:
            return Submitted()
        number = int(typed) if typed.isdecimal() and len(typed) <= 3 else 0  # noqa: PLR2004 (no form has a thousand questions)
        if 1 <= number <= len(places):
            return BackTo(places[number - 1] + 1)
        command = find_named(scene.commands, typed)
        if command is None:
            rows = hang(f"{one_line(typed)} is not a row or a key; type ? for help.", scene.width, "  ")
            continue
        done = yield from scene.act(command)
        if not isinstance(done, list):
            return done
        rows = done

"""Text, JSON under a schema, and secrets, line by line."""

from __future__ import annotations

from msgspec import UNSET

from midturn.core.json_value import Json
from midturn.core.question.answer_type import SchemaType
from midturn.core.reply import Answered
from midturn.core.secret import SecretValue
from midturn.prompts.accept import NotAccepted, accept, accept_json, accept_number
from midturn.prompts.cells import glued
from midturn.prompts.content import initial, pretty
from midturn.prompts.emptiness import EMPTY_SECRET, EMPTY_TEXT, Empty
from midturn.prompts.keys import HELP, Command, Commands, KeyStep
from midturn.prompts.native import expected, is_number, is_text, number_text, shape, wanted
from midturn.prompts.plain.dialog import Dialog
from midturn.prompts.plain.draft import EDITOR, Draft, DraftField, Entered, draft_rows, fill
from midturn.prompts.plain.entry import command_in, unescaped
from midturn.prompts.plain.scene import Scene, spoken_key

_EMPTY = Command("empty", "send an empty text", Answered(""), word="text")


def text(scene: Scene) -> Dialog:
    """Ask for a text; Enter alone takes the default, and sends an empty text where there is none."""
    start = initial(scene.prompt)
    draft = Draft(start, kept=True) if isinstance(start, str) else Draft()
    return (yield from _text(scene, draft, ""))


def _text(scene: Scene, draft: Draft, about: str) -> Dialog:
    """Ask for a text of which `about` says what it must be like; an empty one that nobody asked for is refused once."""
    empty = Empty(scene.prompt)

    def answered(typed: str) -> Json:
        value = accept(scene.prompt, typed)
        if not typed and empty.refuses():
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
    empty = Empty(scene.prompt)
    while True:
        typed = yield scene.say(rows, f"Hidden input ({keys}):", "hidden")
        command = command_in(typed, scene.commands)
        if command is None and not typed and empty.refuses():
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

"""Text, JSON under a schema, and secrets, line by line."""

from __future__ import annotations

from msgspec import UNSET

from midturn.core.question.answer_type import SchemaType
from midturn.core.reply import Answered
from midturn.core.secret import SecretValue
from midturn.prompts.accept import accept, accept_json
from midturn.prompts.command import HELP, Command, Commands
from midturn.prompts.content import initial, pretty
from midturn.prompts.json_text import skeleton
from midturn.prompts.plain.dialog import Dialog, Say
from midturn.prompts.plain.draft import EDITOR, Draft, Entered, Field, draft_rows, fill
from midturn.prompts.plain.entry import command_in, unescaped
from midturn.prompts.plain.scene import Scene

_EMPTY = Command("empty", "send an empty text", Answered(""))


def text(scene: Scene) -> Dialog:
    """Ask for a text; Enter alone takes the default, and sends an empty text where there is none."""
    start = initial(scene.prompt)
    draft = Draft(start, kept=True) if isinstance(start, str) else Draft()
    offered = _offered(scene.commands, (_EMPTY,) if draft.text else ())
    field = Field("your answer", lambda typed: accept(scene.prompt, typed), offered)
    return (yield from _fill(scene, field, draft, _multiline("Draft:", draft.text)))


def schema(scene: Scene, answer_type: SchemaType) -> Dialog:
    """Ask for JSON; what does not fit the schema is kept, with up to three errors by their paths."""
    start = initial(scene.prompt)
    draft = Draft(pretty(skeleton(answer_type.schema))) if start is UNSET else Draft(pretty(start), kept=True)
    field = Field("your answer", lambda typed: accept_json(scene.prompt, typed), _offered(scene.commands), ".json")
    title = "Answer in JSON. Draft:" if draft.kept else "Answer in JSON of this shape:"
    return (yield from _fill(scene, field, draft, draft_rows(title, draft.text)))


def secret(scene: Scene) -> Dialog:
    """Ask for a secret; nothing of it is shown, not even its length."""
    keys = " ".join(f":{command.key}" for command in scene.commands if command is not HELP)
    rows = scene.opening()
    while True:
        typed = yield Say(rows=rows, ask=f"Hidden input ({keys} to leave, :? help): ", entry="hidden")
        command = command_in(typed, scene.commands)
        if command is None:
            return Answered(SecretValue(unescaped(typed)))
        done = scene.help(scene.commands, ":") if command is HELP else (yield from scene.act(command))
        if not isinstance(done, list):
            return done
        rows = done


def _fill(scene: Scene, field: Field, draft: Draft, rows: list[str]) -> Dialog:
    rows = [*scene.opening(), *rows]
    while True:
        entered = yield from fill(field, draft, rows)
        if isinstance(entered, Entered):
            return Answered(entered.value)
        command, draft = entered
        done = scene.help(field.offered, ":") if command is HELP else (yield from scene.act(command))
        if not isinstance(done, list):
            return done
        rows = done


def _offered(own: Commands, more: Commands = ()) -> Commands:
    """Return the commands of a text field: the prompt's, the editor before the help."""
    return (*(command for command in own if command is not HELP), *more, EDITOR, HELP)


def _multiline(title: str, text: str) -> list[str]:
    return draft_rows(title, text) if "\n" in text else []

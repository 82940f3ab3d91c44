"""The plain dialogue of any prompt, and those of a yes or no and of a review."""

from __future__ import annotations

from typing import assert_never

from midturn.core.question.answer_type import BooleanType, MultiSelectType, SchemaType, SecretType, SelectType, TextType
from midturn.core.reply import Submitted
from midturn.core.subject import AnswersSubject, reviewed_places
from midturn.prompts.cells import hang
from midturn.prompts.content import one_line, skipped, yes_no_default
from midturn.prompts.jump import BackTo
from midturn.prompts.keys import Commands, find, find_named
from midturn.prompts.plain.dialog import Dialog
from midturn.prompts.plain.scene import Scene
from midturn.prompts.plain.select import multi_select, select
from midturn.prompts.plain.text import schema, secret, text


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
    places = reviewed_places(scene.prompt.subject) if isinstance(scene.prompt.subject, AnswersSubject) else []
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

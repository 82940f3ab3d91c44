"""The plain dialogue of any prompt."""

from __future__ import annotations

from typing import assert_never

from midturn.core.question.answer_type import BooleanType, MultiSelectType, SchemaType, SecretType, SelectType, TextType
from midturn.prompts.plain.boolean import boolean
from midturn.prompts.plain.dialog import Dialog
from midturn.prompts.plain.review import review
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

"""What was answered, in one line: the transcript row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never, cast

from midturn.core.json_text import compact
from midturn.core.json_value import Json
from midturn.core.prompt import Prompt
from midturn.core.question import Question
from midturn.core.question.answer_type import BooleanType, MultiSelectType, SchemaType, SecretType, SelectType, TextType
from midturn.core.reply import Answered, Edited, EndedTurn, Replied, Reply, Submitted, Unavailable, WentBack
from midturn.core.secret import SecretValue
from midturn.prompts.content import one_line, other_text, scalar_text
from midturn.prompts.keys import is_beside_a_turn, scope

HIDDEN = "(hidden)"

_QUOTATION = ('""', "''", "“”")


def reply_text(prompt: Prompt, reply: Reply) -> str:  # noqa: PLR0911 (one for each kind of reply)
    """Say in one line what the person did; a secret is `(hidden)`."""
    match reply:
        case Answered():
            return answered_text(prompt, reply)
        case WentBack():
            return "(back)"
        case Replied(text):
            return f"(reply) {one_line(text)}" if text else "(reply)"
        case EndedTurn():
            return "(no answer)" if is_beside_a_turn(prompt) else "(end turn)"
        case Edited():
            return "yes, edited"
        case Submitted():
            return "(sent)"
        case Unavailable():
            return "(not available)"
        case _ as other:
            assert_never(other)


def answered_text(prompt: Prompt, reply: Answered) -> str:
    """Say what was answered, whether it is remembered, and the reason that was typed."""
    text = HIDDEN if isinstance(reply.value, SecretValue) else value_text(prompt.question, reply.value)
    remembered = "" if not reply.remember else ", always" if prompt.always else ", for this turn"
    reason = f": {quoted(reply.reason)}" if reply.reason else ""
    return text + remembered + reason


def quoted(words: str) -> str:
    """Put somebody's words in quotation marks that are not in them, as far as there are three kinds."""
    opening, closing = next((marks for marks in _QUOTATION if not set(marks) & set(words)), _QUOTATION[0])
    return f"{opening}{one_line(words)}{closing}"


def covered_text(prompt: Prompt, reply: Reply) -> str:
    """Say what a remembered answer covers from now on; empty where nothing is remembered."""
    if not isinstance(reply, Answered) or not reply.remember:
        return ""
    if prompt.always:
        return f"From now on: {one_line(reply.remember) if isinstance(reply.remember, str) else scope(prompt)}."
    return f"From now on {'yes' if reply.value is True else 'no'} to {scope(prompt)}."


def value_text(question: Question[object], value: Json) -> str:  # noqa: PLR0911 (one for each type of answer)
    """Show an answer in one line, by the type of its question."""
    if value is None and question.optional:
        return "(skipped)"
    match question.answer_type:
        case BooleanType():
            return "yes" if value else "no"
        case SelectType():
            return choice_text(value)
        case MultiSelectType():
            return ", ".join(map(choice_text, cast("Sequence[Json]", value))) or "(none)"
        case TextType():
            return one_line(scalar_text(value)) or "(empty)"
        case SecretType():
            return HIDDEN
        case SchemaType():
            return one_line(compact(value))
        case _ as other:
            assert_never(other)


def choice_text(value: Json) -> str:
    """Show one chosen value, or the words that were typed instead."""
    other = other_text(value)
    return one_line(scalar_text(value)) if other is None else one_line(other)

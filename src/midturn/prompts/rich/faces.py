"""Which face asks a prompt first, and which ones its keys open."""

from __future__ import annotations

from typing import assert_never

from msgspec import UNSET

from midturn.core.json_value import Json
from midturn.core.prompt import CallSubject, Prompt, ResultSubject
from midturn.core.question.answer_type import BooleanType, MultiSelectType, SchemaType, SecretType, SelectType, TextType
from midturn.core.reply import Answered, Edited, Replied, Submitted
from midturn.prompts.accept import accept, accept_arguments, accept_json
from midturn.prompts.command import Command, Commands, Step
from midturn.prompts.content import first_other, initial, pretty, yes_no_default
from midturn.prompts.json_text import skeleton
from midturn.prompts.rich.choice import Choice, Keys
from midturn.prompts.rich.face import Face, Outcome, Sign
from midturn.prompts.rich.field import Field, FieldSettings
from midturn.prompts.rich.filtering import Filtering
from midturn.prompts.rich.options import MOST_WITH_KEYS
from midturn.prompts.rich.picking import MarkSeveral, PickOne
from midturn.prompts.rich.secret import SecretField


def first_face(prompt: Prompt, tail: str, offered: Commands) -> Face:  # noqa: PLR0911 (one for each type)
    """Return the face that takes the first key; `tail` is the last row of the question."""
    if prompt.kind == "review":
        send = Command("enter", "send the answers", Submitted())
        return Choice(tail, Keys(offered, send, "Enter sends"))
    match prompt.question.answer_type:
        case BooleanType():
            return Choice(tail, Keys(offered, *_default(prompt, offered)))
        case SelectType(options=options) | MultiSelectType(options=options) if len(options) > MOST_WITH_KEYS:
            return Filtering(prompt, tail)
        case SelectType():
            return PickOne(prompt, tail, offered)
        case MultiSelectType():
            return MarkSeveral(prompt, tail, offered)
        case TextType() | SchemaType():
            return text_field(prompt, tail)
        case SecretType():
            return SecretField(tail)
        case _ as other:
            assert_never(other)


def text_field(prompt: Prompt, tail: str) -> Field:
    """Return the field of a text or of JSON, with the default (or the shape of what is asked for) in it."""
    start = initial(prompt)
    match prompt.question.answer_type:
        case SchemaType(schema):
            text = pretty(skeleton(schema) if start is UNSET else start)
            return Field(FieldSettings(tail, "json", Sign.MENU), text, lambda typed: Answered(accept_json(prompt, typed)))
        case _:
            text = start if isinstance(start, str) else ""
            return Field(FieldSettings(tail, escape=Sign.MENU), text, lambda typed: Answered(accept(prompt, typed)))


def text_menu(tail: str, offered: Commands) -> Choice:
    """Return the row of keys of a text field: `a` goes (back) to the text."""
    answer = Command("a", "answer: to the text", Step.ANSWER)
    return Choice(tail, Keys((answer, *offered), answer, "a", Sign.LEAVE))


def cancel_menu(offered: Commands) -> Choice:
    """Return the ways out of a list; Escape goes back to it."""
    titles = "/".join(command.title for command in offered if command.title)
    return Choice(f"Cancel: {titles}? (Esc resumes)", Keys(offered, escape=Sign.LEAVE))


def reply_field() -> Field:
    """Return the field for words to the assistant; none are needed."""
    return Field(FieldSettings("Your reply to the assistant (may be empty):"), "", lambda typed: Replied(typed.strip() or None))


def reason_field() -> Field:
    """Return the field for the reason of a no; none is needed."""
    return Field(FieldSettings("Why not? (may be empty)"), "", lambda typed: Answered(False, reason=typed.strip() or None))


def other_field(prompt: Prompt, face: Face) -> Field:
    """Return the field for words of the person's own: the answer itself, or one more of several."""
    settings = FieldSettings("In your own words:")
    if isinstance(face, MarkSeveral | Filtering) and isinstance(prompt.question.answer_type, MultiSelectType):

        def keep(typed: str) -> Outcome:
            face.other = typed.strip() or None
            return Sign.LEAVE

        return Field(settings, face.other or "", keep)

    def answer(typed: str) -> Outcome:
        return Answered(accept(prompt, {"other": typed.strip()})) if typed.strip() else Sign.LEAVE

    return Field(settings, first_other(prompt) or "", answer)


def subject_field(prompt: Prompt) -> Field | None:
    """Return the field in which the arguments or the result are edited; what is submitted runs, or is given to the model."""

    def changed(value: Json) -> Outcome:
        return Edited(value)

    match prompt.subject:
        case CallSubject(call):
            settings = FieldSettings("The arguments, as they will run:", "json")
            return Field(settings, pretty(call.arguments), lambda typed: changed(accept_arguments(typed)))
        case ResultSubject(content=content):
            return Field(FieldSettings("The result, as the model will read it:"), content, changed)
        case _:
            return None


def _default(prompt: Prompt, offered: Commands) -> tuple[Command | None, str]:
    default = yes_no_default(prompt)
    if default is None:
        return None, ""
    key = "y" if default else "n"
    return next(command for command in offered if command.key == key), key

"""What a person can choose among where an editor has no forms: an approval, a yes or a no, one of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from acp import schema
from msgspec import Struct

from midturn.core.question.answer_type import BooleanType, SelectType
from midturn.core.stream import OpenQuestion
from midturn.servers.acp.editor import Editor

PermissionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once"]


class OfferedOption(Struct, frozen=True, kw_only=True):
    """One of the options: `answer` is what `store.answer` is given when a person takes it."""

    id: str
    name: str
    kind: PermissionKind
    answer: Mapping[str, Any]

    @property
    def option(self) -> schema.PermissionOption:
        """The option as the protocol has it."""
        return schema.PermissionOption(option_id=self.id, name=self.name, kind=self.kind)


def choices_of(question: OpenQuestion, editor: Editor) -> Sequence[OfferedOption]:
    """Return the options of a question; none where it cannot be answered by choosing one in this editor."""
    choices = _choices(question)
    is_yes_or_no = [choice.kind for choice in choices].count("allow_once") == 1
    return choices if editor.shows_options or is_yes_or_no else []


def _choices(question: OpenQuestion) -> Sequence[OfferedOption]:
    match question.kind:
        case "run":
            always = f"Allow every call of {question.tool} in this turn"
            return [
                OfferedOption(id="allow", name="Allow", kind="allow_once", answer={"approve": True}),
                OfferedOption(id="allow_in_turn", name=always, kind="allow_always", answer={"approve": True, "remember": True}),
                OfferedOption(id="refuse", name="Refuse", kind="reject_once", answer={"approve": False}),
            ]
        case "deliver":
            return [
                OfferedOption(id="deliver", name="Let the model read it", kind="allow_once", answer={"approve": True}),
                OfferedOption(id="withhold", name="Withhold it", kind="reject_once", answer={"approve": False}),
            ]
        case "review":
            return [
                OfferedOption(id="send", name="Send these answers", kind="allow_once", answer={"approve": True}),
                OfferedOption(id="talk", name="Talk about it first", kind="reject_once", answer={"reply": ""}),
            ]
        case _:
            return _answers(question)


def _answers(question: OpenQuestion) -> Sequence[OfferedOption]:
    match question.question.answer_type:
        case BooleanType():
            yes = OfferedOption(id="yes", name="Yes", kind="allow_once", answer={"value": True})
            return [yes, OfferedOption(id="no", name="No", kind="reject_once", answer={"value": False}), *_skipping(question)]
        case SelectType(options=options):
            chosen = [
                OfferedOption(
                    id=f"option_{place}",
                    name=f"{option.value}: {option.description}" if option.description else str(option.value),
                    kind="allow_once",
                    answer={"value": option.value},
                )
                for place, option in enumerate(options, 1)
            ]
            return [*chosen, *_skipping(question)]
        case _:
            return []


def _skipping(question: OpenQuestion) -> Sequence[OfferedOption]:
    skip = OfferedOption(id="skip", name="No answer", kind="reject_once", answer={"value": None})
    return [skip] if question.question.optional else []

"""Shows an open question in an editor's own dialog. Responses that cannot come from a person are
ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import acp
from acp import RequestError, schema
from msgspec import Struct
from pydantic import ValidationError

from midturn.errors import AlreadyAnswered, AnswerError, MidturnError, NotOpen
from midturn.events.open_question import OpenQuestion
from midturn.integrations.acp.updates import Editor, kind_of, title_of
from midturn.integrations.hooks.clients import Client, can_show
from midturn.integrations.hooks.external_call import MIN_RESPONSE_TIME, questions_for_dialog
from midturn.ports import Clock
from midturn.protocol_forms import Outgoing, heading
from midturn.question.answer_type import BooleanType, SelectType
from midturn.question.question import Question
from midturn.stores.store import ConversationStore

# --------------------------------------------------------------------------------------------------
# Options for editors without forms: an approval, yes or no, or one of several values


PermissionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once"]


class OfferedOption(Struct, frozen=True, kw_only=True):
    """One option. If a person chooses it, `answer` is passed to `store.answer` as keyword
    arguments.
    """

    id: str
    name: str
    kind: PermissionKind
    answer: Mapping[str, Any]

    @property
    def option(self) -> schema.PermissionOption:
        """The option in the protocol's format."""
        return schema.PermissionOption(option_id=self.id, name=self.name, kind=self.kind)


def choices_of(question: OpenQuestion, editor: Editor) -> Sequence[OfferedOption]:
    """Return the options to show for a question. Empty if the question cannot be answered with a
    list of options in this editor.
    """
    choices = _choices(question)
    is_yes_or_no = [choice.kind for choice in choices].count("allow_once") == 1
    return choices if editor.shows_options or is_yes_or_no else []


def _choices(question: OpenQuestion) -> Sequence[OfferedOption]:
    match question.kind:
        case "run":
            always = f"Allow every call of {question.tool} in this turn"
            return [
                OfferedOption(
                    id="allow", name="Allow", kind="allow_once", answer={"approve": True}
                ),
                OfferedOption(
                    id="allow_in_turn",
                    name=always,
                    kind="allow_always",
                    answer={"approve": True, "remember": True},
                ),
                OfferedOption(
                    id="refuse", name="Refuse", kind="reject_once", answer={"approve": False}
                ),
            ]
        case "deliver":
            return [
                OfferedOption(
                    id="deliver",
                    name="Let the model read it",
                    kind="allow_once",
                    answer={"approve": True},
                ),
                OfferedOption(
                    id="withhold", name="Withhold it", kind="reject_once", answer={"approve": False}
                ),
            ]
        case "review":
            return [
                OfferedOption(
                    id="send",
                    name="Send these answers",
                    kind="allow_once",
                    answer={"approve": True},
                ),
                OfferedOption(
                    id="talk", name="Talk about it first", kind="reject_once", answer={"reply": ""}
                ),
            ]
        case _:
            return _answers(question)


def _answers(question: OpenQuestion) -> Sequence[OfferedOption]:
    match question.question.answer_type:
        case BooleanType():
            yes = OfferedOption(id="yes", name="Yes", kind="allow_once", answer={"value": True})
            return [
                yes,
                OfferedOption(id="no", name="No", kind="reject_once", answer={"value": False}),
                *_skip_option(question),
            ]
        case SelectType(options=options):
            chosen = [
                OfferedOption(
                    id=f"option_{place}",
                    name=(
                        f"{option.value}: {option.description}"
                        if option.description
                        else str(option.value)
                    ),
                    kind="allow_once",
                    answer={"value": option.value},
                )
                for place, option in enumerate(options, 1)
            ]
            return [*chosen, *_skip_option(question)]
        case _:
            return []


def _skip_option(question: OpenQuestion) -> Sequence[OfferedOption]:
    skip = OfferedOption(id="skip", name="No answer", kind="reject_once", answer={"value": None})
    return [skip] if question.question.optional else []


VIA = "acp"
_LOG = logging.getLogger(__name__)
_ANY_CLIENT = Client()  # forms of this protocol support all kinds of questions


class NoEditorAnswer(Exception):  # noqa: N818  named for the event
    """The editor did not return a person's answer. The message contains the reason."""


class EditorDialog(Struct, frozen=True, kw_only=True):
    """Asks questions in one session of an editor."""

    connection: acp.Client
    session: str
    editor: Editor
    store: ConversationStore
    clock: Clock
    quickest: float = MIN_RESPONSE_TIME

    def can_ask(self, question: OpenQuestion) -> bool:
        """Return whether the editor can show the question."""
        return bool(self._form(question) or choices_of(question, self.editor))

    async def ask(self, question: OpenQuestion) -> None:
        """Ask a question and record the answer.

        Raises:
            NoEditorAnswer: The editor returned no valid answer. The question stays open and can
                be answered in another interface.
        """
        form = self._form(question)
        began = self.clock.monotonic()
        try:
            answer = await (self._ask_form(question, form) if form else self._ask_choice(question))
        except (RequestError, ValidationError) as error:
            raise NoEditorAnswer(
                f"{self.editor.name} could not show the question: {error}"
            ) from error
        if self.clock.monotonic() - began < self.quickest:
            raise NoEditorAnswer(
                f"{self.editor.name} answered faster than a person can read the question."
            )
        await self._record(question, answer)

    async def _record(self, question: OpenQuestion, answer: Mapping[str, Any]) -> None:
        digest = question.digest if answer.get("approve") else ""
        try:
            await self.store.answer(question.id, via=VIA, digest=digest, **answer)
        except (AlreadyAnswered, NotOpen) as late:
            _LOG.info("an answer from %s was too late: %r", self.editor.name, str(late))
        except MidturnError as error:
            raise NoEditorAnswer(str(error)) from error

    # Forms
    # ----------------------------------------------------------------------------------------------

    def _form(self, question: OpenQuestion) -> Outgoing | None:
        if not self.editor.shows_forms or question.kind != "tool":
            return None
        questions = questions_for_dialog(question, _all_can_be_shown)
        return Outgoing.of(questions) if questions and _all_can_be_shown(questions) else None

    async def _ask_form(self, question: OpenQuestion, form: Outgoing) -> Mapping[str, Any]:
        requested = schema.ElicitationSchema.model_validate(form.schema)
        mode = schema.ElicitationFormSessionMode(
            session_id=self.session,
            tool_call_id=question.request.call or None,
            requested_schema=requested,
        )
        said = await self.connection.create_elicitation(heading(form.questions), mode)
        match said:
            case schema.AcceptElicitationResponse():
                return {"value": self._form_answer(question, form, said.content)}
            case schema.DeclineElicitationResponse() if self.editor.can_refuse:
                return {"reply": ""}
            case _:
                raise NoEditorAnswer(f"{self.editor.name} returned no answer.")

    def _form_answer(self, question: OpenQuestion, form: Outgoing, content: object) -> object:
        try:
            answers = form.answers(content)
        except AnswerError as error:
            raise NoEditorAnswer(f"{self.editor.name} sent an invalid answer: {error}") from error
        return answers if question.form else next(iter(answers.values()))

    # Choices
    # ----------------------------------------------------------------------------------------------

    async def _ask_choice(self, question: OpenQuestion) -> Mapping[str, Any]:
        choices = choices_of(question, self.editor)
        said = await self.connection.request_permission(
            self.session, _call_update(question), [choice.option for choice in choices]
        )
        if not isinstance(said.outcome, schema.AllowedOutcome):
            raise NoEditorAnswer(f"{self.editor.name} returned no answer.")
        taken = next((choice for choice in choices if choice.id == said.outcome.option_id), None)
        if taken is None:
            raise NoEditorAnswer(f"{self.editor.name} chose an unknown option.")
        if taken.kind == "reject_once" and not self.editor.can_refuse:
            raise NoEditorAnswer(
                f"{self.editor.name} also refuses when no person is there, so its refusal does not"
                " count."
            )
        if question.form and "value" in taken.answer:
            return {"value": {question.question_id: taken.answer["value"]}}
        return taken.answer


def _all_can_be_shown(questions: Sequence[Question[Any]]) -> bool:
    return can_show(_ANY_CLIENT, questions)


def _call_update(question: OpenQuestion) -> schema.ToolCallUpdate:
    """Return the text to show above the options: the call, or the question."""
    again = f"An earlier answer was not accepted: {question.problem}" if question.problem else ""
    text = "\n\n".join(
        part for part in (again, question.question.text, question.question.context) if part
    )
    is_run = question.kind == "run"
    return schema.ToolCallUpdate(
        tool_call_id=question.request.call,
        title=title_of(question.tool, question.arguments) if is_run else question.question.text,
        kind=kind_of(question.tool),
        status="pending",
        raw_input=question.arguments,
        content=[acp.tool_content(acp.text_block(text))],
    )

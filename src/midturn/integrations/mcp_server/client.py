"""The client that calls the server: its known properties, its dialog, and the results for its
model.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct
from pydantic import ValidationError

from midturn.errors import AlreadyAnswered, AnswerError, NotOpen, PersonNeeded, TooLarge
from midturn.events.types import Event, put_to_people
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.clients import (
    Client,
    call_id_of,
    can_show,
    client_of,
    is_unattended,
    session_of,
)
from midturn.integrations.hooks.external_call import (
    MIN_RESPONSE_TIME,
    VIA,
    ExternalCall,
    questions_for_dialog,
)
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.model_messages import (
    Approved,
    Decided,
    DecidedElsewhere,
    FormCompleted,
    Refused,
    RepliedTo,
    TurnStopped,
)
from midturn.ports import Clock
from midturn.protocol_forms import Outgoing, heading
from midturn.question.json_value import Json, JsonObject, members
from midturn.routing.messages import user_added
from midturn.tools.ask_user_call import SINGLE_ID, FormRead

# --------------------------------------------------------------------------------------------------
# Tasks: calls that continue in the background while the client polls them


TASKS: Final = "io.modelcontextprotocol/tasks"
"""Capability of clients that support tasks."""
PROOF: Final = "~"
"""Separator before the secret part of a task id."""
_ID = re.compile(r"(?P<handle>.+?)(?:\.(?P<round>[1-9][0-9]{0,8}))?(?:~[0-9a-f]{1,64})?")
# seconds after the question was asked in which the client polls at the short interval, because an
# answer is most likely
_ACTIVE_SECONDS = 60.0
_SHORT_POLL_INTERVAL, _LONG_POLL_INTERVAL = 1_000, 5_000  # milliseconds


def task_id(external_call: ExternalCall) -> str:
    """Return the id of the latest task of a call. A call that was cancelled and repeated has a new
    task for the same question.
    """
    return (
        f"{external_call.handle}.{external_call.asker.round}"
        if external_call.asker.round
        else external_call.handle
    )


def parse_task_id(id: str) -> tuple[str, int]:
    """Split a task id into the handle of the question and the number of the task."""
    found = _ID.fullmatch(id)
    return (found["handle"], int(found["round"] or 0)) if found else ("", 0)


def task_fields(external_call: ExternalCall, turn: Sequence[Event], clock: Clock) -> dict[str, Any]:
    """Return the fields that all states of a task have. A task expires only if its question has a
    deadline.
    """
    waited = (clock.now() - turn[0].at).total_seconds()
    return {
        "taskId": task_id(external_call),
        "createdAt": turn[0].timestamp,
        "lastUpdatedAt": turn[-1].timestamp,
        "ttlMs": _lifetime(turn),
        "pollIntervalMs": _SHORT_POLL_INTERVAL if waited < _ACTIVE_SECONDS else _LONG_POLL_INTERVAL,
    }


def _lifetime(turn: Sequence[Event]) -> int | None:
    """Return the time in milliseconds from the call to the earliest deadline of its questions. None
    if there is no deadline.
    """
    ends = [
        datetime.fromisoformat(event.deadline) for event in put_to_people(turn) if event.deadline
    ]
    return max(0, int((min(ends) - turn[0].at).total_seconds() * 1000)) if ends else None


def is_cancelled(external_call: ExternalCall, round: int) -> bool:
    """Return whether the task with the number `round` was cancelled. It stays cancelled even if its
    question is answered later.
    """
    return round < external_call.asker.round or external_call.asker.cancelled


def task_result(external_call: ExternalCall, turn: Sequence[Event], clock: Clock) -> dict[str, Any]:
    """Return the result of a call that continues as a task."""
    return {
        "resultType": "task",
        "status": "working",
        "statusMessage": "Waiting for the user.",
        **task_fields(external_call, turn, clock),
    }


class Caller(Struct, frozen=True, kw_only=True):
    """The client that sent a request.

    Args:
        client: Known properties of the client.
        alone: Whether the client runs without a person at its terminal.
        session: Session id chosen by the client.
        call_id: Call id chosen by the client.
        shows_forms: Whether the client supports forms.
        pushes: Whether the server sends a form while the call waits. Otherwise, the call returns
            the form, and the client repeats the call with the response.
        has_tasks: Whether the client supports tasks.
    """

    client: Client
    alone: bool
    session: str
    call_id: str
    shows_forms: bool
    pushes: bool
    has_tasks: bool

    @property
    def keeps_dialog(self) -> bool:
        """Whether the client may keep a dialog open until the user closes it. The server cannot
        close the dialog of a form that it returned as the result of a call.
        """
        return self.shows_forms and not self.pushes and not self.alone and bool(self.client.kinds)

    @classmethod
    def of(cls, context: ServerRequestContext[Any], environment: Mapping[str, str]) -> Caller:
        """Return the client that sent a request."""
        session = context.session
        info = session.client_params.client_info if session.client_params else None
        capabilities = session.client_capabilities
        elicitation = capabilities.elicitation if capabilities else None
        client = client_of(info.name if info else "")
        meta: JsonObject = members(context.meta)
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        return cls(
            client=client,
            alone=is_unattended(client, environment, meta),
            session=session_of(client, environment, meta),
            call_id=call_id_of(meta),
            shows_forms=elicitation is not None
            and (elicitation.form is not None or elicitation.url is None),
            pushes=not modern,
            has_tasks=modern and TASKS in (capabilities.extensions or {} if capabilities else {}),
        )


_LOG = logging.getLogger(__name__)


class ShownForm(Struct, frozen=True):
    """Content of a dialog: a message with one question or a whole form. `key` is the id of the
    open question.
    """

    key: str
    message: str
    form: Outgoing

    @property
    def request(self) -> types.ElicitRequest:
        """The request that opens the dialog."""
        params = types.ElicitRequestFormParams(
            message=self.message, requested_schema=self.form.schema
        )
        return types.ElicitRequest(params=params)


class CallDialog(Struct, frozen=True, kw_only=True):
    """Dialog in which a client shows the questions of one call. `quickest` is the minimum time in
    seconds that a person needs to respond.
    """

    caller: Caller
    calls: ExternalCallService
    external_call: ExternalCall
    clock: Clock
    quickest: float = MIN_RESPONSE_TIME

    async def next(self) -> ShownForm | None:
        """Return the form to show now, or None if no question is open or the client cannot show
        it.
        """
        question = await self.calls.open_question(self.external_call)
        if question is None or not self.caller.shows_forms or self.caller.alone:
            return None
        questions = questions_for_dialog(
            question, lambda asked: can_show(self.caller.client, asked)
        )
        if not questions or not can_show(self.caller.client, questions):
            return None
        return ShownForm(
            question.id,
            heading(questions),
            Outgoing.of(questions, in_order=self.caller.client.sorts),
        )

    async def push(self, context: ServerRequestContext[Any]) -> None:
        """Show open questions and record the answers. Stop when the client can show no other
        question, or when a response is not recorded. That question stays open.
        """
        while shown := await self.next():
            began = self.clock.monotonic()
            try:
                said = await context.session.elicit_form(
                    shown.message, shown.form.schema, related_request_id=context.request_id
                )
            except (MCPError, ValidationError) as error:
                _LOG.info("%s failed to show a question: %r", self.caller.client.name, str(error))
                return
            if not await self.take(shown, said, self.clock.monotonic() - began):
                return

    async def take(self, shown: ShownForm, said: types.ElicitResult, seconds: float) -> bool:
        """Record a response unless it cannot come from a person. Return whether it was recorded.

        Args:
            shown: The form that was shown.
            said: The response.
            seconds: Response time. A response that is faster than a person can read is ignored.
        """
        if seconds < self.quickest:
            _LOG.info(
                "%s responded %r after %d ms, faster than a person can read",
                self.caller.client.name,
                said.action,
                seconds * 1000,
            )
            return False
        try:
            match said.action:
                case "accept":
                    await self.calls.answer(
                        self.external_call, shown.form.answers(said.content), VIA, shown.key
                    )
                case "decline" if self.caller.client.can_decline:
                    await self.calls.decline(self.external_call, VIA, shown.key)
                case _:
                    return False
        except (AnswerError, AlreadyAnswered, NotOpen, PersonNeeded) as error:
            _LOG.info(
                "the response from %s was not accepted: %r", self.caller.client.name, str(error)
            )
            if isinstance(
                error.__cause__, TooLarge
            ):  # clients do not check the size, so the model receives the error
                raise error.__cause__ from None
            return False
        return True


class ServedResult(Struct, frozen=True):
    """A tool result. `data` contains the same information as `text`."""

    text: str
    data: dict[str, Json]
    is_error: bool = False

    def result(self) -> types.CallToolResult:
        """Return the result as a type of the SDK."""
        content: Any = {**self.data, "text": self.text}
        text = types.TextContent(type="text", text=self.text)
        return types.CallToolResult(
            content=[text], structured_content=content, is_error=self.is_error
        )

    def wire(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return self.result().model_dump(mode="json", by_alias=True, exclude_none=True)


def answer_result(asked: FormRead, outcome: Decided) -> ServedResult:
    """Return the result for the outcome of a question."""
    match outcome:
        case FormCompleted(answers=answers, reasons=reasons):
            if asked.answer_type is not None:
                return _single_answer(
                    asked.answer_type, answers[SINGLE_ID], next(iter(reasons.values()), None)
                )
            return _form_answers(dict(answers), [*reasons.values()])
        case RepliedTo(said):
            return ServedResult(
                model_messages.replied(outcome), {"status": "replied", "reply": said}
            )
        case TurnStopped():
            return ServedResult(model_messages.ENDED, {"status": "ended"})
        case Approved() | Refused() | DecidedElsewhere():
            return withdrawn_result()


def withdrawn_result() -> ServedResult:
    """Return the result for a question that was withdrawn. It is an error, so that models do not
    treat it as an answer.
    """
    return ServedResult(
        "The question was withdrawn; nobody has answered it.",
        {"status": "withdrawn"},
        is_error=True,
    )


def waiting_result(id: str, ticket: int, advice: str) -> ServedResult:
    """Return the result for a question that is still open."""
    text = (
        f"Nobody has answered yet. This is not a no, and not a yes. The question stays open: the"
        f" user finds it in the inbox. "
        f'{advice} (check_answer {{"id": "{id}", "ticket": {ticket}}})'
    )
    return ServedResult(text, {"status": "waiting", "id": id, "ticket": ticket})


def available_result(id: str) -> ServedResult:
    """Return the result for a task whose answer can be read with `check_answer`."""
    text = (
        f'The user has responded: call check_answer {{"id": "{id}", "ticket": 0}} to read what was'
        " said."
    )
    return ServedResult(text, {"status": "there", "id": id, "ticket": 0})


def cancelled_message(id: str) -> str:
    """Return the status message of a cancelled call, whether its question is open, answered or
    closed.
    """
    return (
        f'This call was cancelled. That is not a no: check_answer {{"id": "{id}", "ticket": 0}}'
        " says what became of the question."
    )


def error_result(text: str) -> types.CallToolResult:
    """Return an error that tells the model how to correct its call."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content={"status": "error", "text": text},
        is_error=True,
    )


def _single_answer(answer_type: str, answer: Json, reason: str | None) -> ServedResult:
    said = f"The user answered: {model_messages.answer_in_words(answer)}" + (
        f" ({reason})" if reason else ""
    )
    data: dict[str, Json] = {
        "answer_type": answer_type,
        "answer": answer,
        **({"reason": reason} if reason else {}),
    }
    return ServedResult(f"{said}\n{_json(data)}", data)


def _form_answers(answers: dict[str, Json], reasons: Sequence[str]) -> ServedResult:
    listed = "\n".join(
        f"- {key}: {model_messages.answer_in_words(value)}" for key, value in answers.items()
    )
    text = "\n".join(["The user answered:", listed, _json(answers), *map(user_added, reasons)])
    return ServedResult(text, {"answers": answers, **({"reasons": [*reasons]} if reasons else {})})


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)

"""The client that calls: what is known of it, its own dialog, and what its model reads."""

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
from midturn.integrations.hooks.clients import Client, call_id_of, can_show, client_of, is_alone, session_of
from midturn.integrations.hooks.external_call import QUICKEST, VIA, Errand, questions_at_once
from midturn.integrations.hooks.external_calls import Errands
from midturn.integrations.hooks.model_messages import Approved, Decided, DecidedElsewhere, FormCompleted, Refused, RepliedTo, TurnStopped
from midturn.ports import Clock
from midturn.protocol_forms import Outgoing, heading
from midturn.question.json_value import Json, JsonObject, members
from midturn.routing.messages import user_added
from midturn.tools.ask_user_call import SINGLE_ID, FormRead

# ----------------------------------------------------------------------------------------------------------------------
# A question as a task: a call that a client leaves to run on, and asks about now and then


TASKS: Final = "io.modelcontextprotocol/tasks"
"""The capability of clients that can leave a call running."""
PROOF: Final = "~"
"""Separator before the part of an id that only its client is told."""
_ID = re.compile(r"(?P<handle>.+?)(?:\.(?P<round>[1-9][0-9]{0,8}))?(?:~[0-9a-f]{1,64})?")
_SOON = 60.0  # seconds for which a person may answer at once
_OFTEN, _RARELY = 1_000, 5_000  # milliseconds between two looks


def id_of(errand: Errand) -> str:
    """Return the id of its newest task. A call that was cancelled and is made again is another task about the same question."""
    return f"{errand.handle}.{errand.asker.round}" if errand.asker.round else errand.handle


def named(id: str) -> tuple[str, int]:
    """Return the question's handle, and which of its tasks an id means."""
    found = _ID.fullmatch(id)
    return (found["handle"], int(found["round"] or 0)) if found else ("", 0)


def described(errand: Errand, turn: Sequence[Event], clock: Clock) -> dict[str, Any]:
    """Return what every state of a task says. It expires with its question only: the clock is no answer."""
    waited = (clock.now() - turn[0].at).total_seconds()
    return {
        "taskId": id_of(errand),
        "createdAt": turn[0].timestamp,
        "lastUpdatedAt": turn[-1].timestamp,
        "ttlMs": _lasts(turn),
        "pollIntervalMs": _OFTEN if waited < _SOON else _RARELY,
    }


def _lasts(turn: Sequence[Event]) -> int | None:
    """Return for how many milliseconds a question can be answered; None where that has no end."""
    ends = [datetime.fromisoformat(event.deadline) for event in put_to_people(turn) if event.deadline]
    return max(0, int((min(ends) - turn[0].at).total_seconds() * 1000)) if ends else None


def is_cancelled(errand: Errand, round: int) -> bool:
    """Say whether a task was cancelled. It stays so, whatever becomes of its question."""
    return round < errand.asker.round or errand.asker.cancelled


def created(errand: Errand, turn: Sequence[Event], clock: Clock) -> dict[str, Any]:
    """Return what a call comes back with that runs on."""
    return {"resultType": "task", "status": "working", "statusMessage": "Waiting for the user.", **described(errand, turn, clock)}


class Caller(Struct, frozen=True, kw_only=True):
    """A client, on one request.

    Args:
        client: What is known of it.
        alone: No one sits at its terminal.
        session: Its own name for its session.
        call_id: Its own id for this call.
        shows_forms: It says that it can show a form.
        pushes: A form is sent to it while its call waits; otherwise the call returns the form, and comes again.
        has_tasks: It says that it can leave a call to run on.
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
        """Whether it may have a dialog open that only a person there closes: one that a call has returned, and that cannot be withdrawn."""
        return self.shows_forms and not self.pushes and not self.alone and bool(self.client.kinds)

    @classmethod
    def of(cls, context: ServerRequestContext[Any], environment: Mapping[str, str]) -> Caller:
        """Read who calls."""
        session = context.session
        info = session.client_params.client_info if session.client_params else None
        capabilities = session.client_capabilities
        elicitation = capabilities.elicitation if capabilities else None
        client = client_of(info.name if info else "")
        meta: JsonObject = members(context.meta)
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        return cls(
            client=client,
            alone=is_alone(client, environment, meta),
            session=session_of(client, environment, meta),
            call_id=call_id_of(meta),
            shows_forms=elicitation is not None and (elicitation.form is not None or elicitation.url is None),
            pushes=not modern,
            has_tasks=modern and TASKS in (capabilities.extensions or {} if capabilities else {}),
        )


_LOG = logging.getLogger(__name__)


class DialogShown(Struct, frozen=True):
    """Content of a dialog: one question, or a whole form, under a message. `key` is the id of the question that is open."""

    key: str
    message: str
    form: Outgoing

    @property
    def request(self) -> types.ElicitRequest:
        """The request that opens it."""
        params = types.ElicitRequestFormParams(message=self.message, requested_schema=self.form.schema)
        return types.ElicitRequest(params=params)


class CallDialog(Struct, frozen=True, kw_only=True):
    """The dialog of one call."""

    caller: Caller
    errands: Errands
    errand: Errand
    clock: Clock
    quickest: float = QUICKEST

    async def next(self) -> DialogShown | None:
        """Return what it is to show now; None where nothing is open, or where it can show nothing of it."""
        question = await self.errands.open_question(self.errand)
        if question is None or not self.caller.shows_forms or self.caller.alone:
            return None
        questions = questions_at_once(question, lambda asked: can_show(self.caller.client, asked))
        if not questions or not can_show(self.caller.client, questions):
            return None
        return DialogShown(question.id, heading(questions), Outgoing.of(questions, in_order=self.caller.client.sorts))

    async def push(self, context: ServerRequestContext[Any]) -> None:
        """Show what is open, and record what a person says; return when nothing more is to be shown. The question stays open then."""
        while shown := await self.next():
            began = self.clock.monotonic()
            try:
                said = await context.session.elicit_form(shown.message, shown.form.schema, related_request_id=context.request_id)
            except (MCPError, ValidationError) as error:
                _LOG.info("%s could not show a question: %r", self.caller.client.name, str(error))
                return
            if not await self.take(shown, said, self.clock.monotonic() - began):
                return

    async def take(self, shown: DialogShown, said: types.ElicitResult, seconds: float) -> bool:
        """Record what came back, if a person said it; say so.

        Args:
            shown: What was shown.
            said: What came back.
            seconds: How long that took. Sooner than anyone can read, no one has said anything.
        """
        if seconds < self.quickest:
            _LOG.info("%s said %r after %d ms: nobody saw the question", self.caller.client.name, said.action, seconds * 1000)
            return False
        try:
            match said.action:
                case "accept":
                    await self.errands.answer(self.errand, shown.form.answers(said.content), VIA, shown.key)
                case "decline" if self.caller.client.can_decline:
                    await self.errands.leave(self.errand, VIA, shown.key)
                case _:
                    return False
        except (AnswerError, AlreadyAnswered, NotOpen, PersonNeeded) as error:
            _LOG.info("what %s said is not an answer: %r", self.caller.client.name, str(error))
            if isinstance(error.__cause__, TooLarge):  # no client checks that, so it is told in words
                raise error.__cause__ from None
            return False
        return True


class ServedResult(Struct, frozen=True):
    """A result: `data` holds everything that `text` says."""

    text: str
    data: dict[str, Json]
    is_error: bool = False

    def result(self) -> types.CallToolResult:
        """Return it as the protocol has it."""
        content: Any = {**self.data, "text": self.text}
        text = types.TextContent(type="text", text=self.text)
        return types.CallToolResult(content=[text], structured_content=content, is_error=self.is_error)

    def wire(self) -> dict[str, Any]:
        """Return it as it stands in a message."""
        return self.result().model_dump(mode="json", by_alias=True, exclude_none=True)


def answered(asked: FormRead, outcome: Decided) -> ServedResult:
    """Say what became of a question."""
    match outcome:
        case FormCompleted(answers=answers, reasons=reasons):
            if asked.answer_type is not None:
                return _single(asked.answer_type, answers[SINGLE_ID], next(iter(reasons.values()), None))
            return _several(dict(answers), [*reasons.values()])
        case RepliedTo(said):
            return ServedResult(model_messages.replied(outcome), {"status": "replied", "reply": said})
        case TurnStopped():
            return ServedResult(model_messages.ENDED, {"status": "ended"})
        case Approved() | Refused() | DecidedElsewhere():
            return withdrawn()


def withdrawn() -> ServedResult:
    """Say that there will be no answer, and that none is known: it is an error, so that no model goes on as if it had one."""
    return ServedResult("The question was withdrawn; nobody has answered it.", {"status": "withdrawn"}, is_error=True)


def waiting(id: str, ticket: int, advice: str) -> ServedResult:
    """Say that the question is still unanswered."""
    text = (
        f"Nobody has answered yet. This is not a no, and not a yes. The question stays open: the user finds it in the inbox. "
        f'{advice} (check_answer {{"id": "{id}", "ticket": {ticket}}})'
    )
    return ServedResult(text, {"status": "waiting", "id": id, "ticket": ticket})


def there(id: str) -> ServedResult:
    """Say that there is an answer, or something else that was said, and how it is read."""
    text = f'The user has responded: call check_answer {{"id": "{id}", "ticket": 0}} to read what was said.'
    return ServedResult(text, {"status": "there", "id": id, "ticket": 0})


def cancelled(id: str) -> str:
    """Say what a cancelled call means, whatever has become of its question since."""
    return f'This call was cancelled. That is not a no: check_answer {{"id": "{id}", "ticket": 0}} says what became of the question.'


def wrong(text: str) -> types.CallToolResult:
    """Return an error that the model can correct itself from."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content={"status": "error", "text": text}, is_error=True
    )


def _single(answer_type: str, answer: Json, reason: str | None) -> ServedResult:
    said = f"The user answered: {model_messages.answer_in_words(answer)}" + (f" ({reason})" if reason else "")
    data: dict[str, Json] = {"answer_type": answer_type, "answer": answer, **({"reason": reason} if reason else {})}
    return ServedResult(f"{said}\n{_json(data)}", data)


def _several(answers: dict[str, Json], reasons: Sequence[str]) -> ServedResult:
    listed = "\n".join(f"- {key}: {model_messages.answer_in_words(value)}" for key, value in answers.items())
    text = "\n".join(["The user answered:", listed, _json(answers), *map(user_added, reasons)])
    return ServedResult(text, {"answers": answers, **({"reasons": [*reasons]} if reasons else {})})


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)

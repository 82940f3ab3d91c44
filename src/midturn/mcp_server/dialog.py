"""A client's own dialog, which shows our question. Not everything that it says comes from a person."""

from __future__ import annotations

import logging
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from msgspec import Struct
from pydantic import ValidationError

from midturn.errors import AlreadyAnswered, AnswerError, NotOpen, PersonNeeded
from midturn.foreign.clients import can_show
from midturn.foreign.errand import QUICKEST, VIA, Errand, questions_at_once
from midturn.foreign.errands import Errands
from midturn.mcp_server.caller import Caller
from midturn.ports import Clock
from midturn.question.elicitation import Outgoing, heading

_LOG = logging.getLogger(__name__)


class DialogShown(Struct, frozen=True):
    """What a dialog shows: one question, or a whole form, under a message. `key` is the id of the question that is open."""

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
                    await self.errands.answer(self.errand, shown.form.answers(said.content), VIA)
                case "decline" if self.caller.client.can_decline:
                    await self.errands.leave(self.errand, VIA)
                case _:
                    return False
        except (AnswerError, AlreadyAnswered, NotOpen, PersonNeeded) as error:
            _LOG.info("what %s said is not an answer: %r", self.caller.client.name, str(error))
            return False
        return True

"""What a server asks in the middle of a call, as our questions; what was answered, as the server takes it.

Nobody is invented: what nobody could be shown is `cancel`, and nothing is filled in that a person has not said. What a person says in
place of an answer is for the model: the server hears `decline`, and the model the words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from mcp import types

from midturn.errors import QuestionError
from midturn.question.elicitation import form_of, opens, web_address_form
from midturn.question.form import Form
from midturn.turn.effects import NoAnswer
from midturn.values.json_value import Json, canonical

AskForm: TypeAlias = Callable[[Form], Awaitable[Mapping[str, Json] | NoAnswer]]
"""Asks a form; without answers it says why."""
MOST: Final = 100
"""Questions and forms of one call. People are asked far fewer; most of so many are such that nobody can be shown them."""
_CANCEL = types.ElicitResult(action="cancel")
_DECLINE = types.ElicitResult(action="decline")
_WHY = {
    "no_prompt_backend": "nobody is here to answer it",
    "assistant_routing_denied": "only a person may answer it, and no person was to be asked",
    "invalid_static_answer": "the answer that is configured for it does not fit",
    "backend_error": "whoever was to answer it could not",
}


class TooManyForms(Exception):  # noqa: N818  it says what the server does
    """A server asks more in one call than may be asked; the message says what a model reads of that."""


class Elicitations:
    """What one call asks. `replies` are the markers of what people said in place of answers, `unasked` says why nobody was asked.

    Args:
        ask: Asks a form; None where nobody can be asked.
        tool: The name under which a model knows the tool.
        call: The event of the call.
        queued: Hears which calls are ahead of it, where a server takes one at a time.
    """

    def __init__(self, ask: AskForm | None, tool: str, call: str, queued: Callable[[Sequence[str]], object]) -> None:
        self.call = call
        self.queued = queued
        self.replies: list[str] = []
        self.unasked: list[str] = []
        self._ask = ask
        self._tool = tool
        self._count = 0
        self._said: dict[bytes, list[types.ElicitResult]] = {}
        self._taken: dict[bytes, int] = {}

    @property
    def asks_somebody(self) -> bool:
        """Whether anybody can be asked."""
        return self._ask is not None

    def start_over(self) -> None:
        """Begin from the start, because the server has forgotten the call: what it asks again has its answers already, in order."""
        self._taken.clear()

    async def answer(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask a person, and return what they said; what is asked again after a new start has its answer already.

        Raises:
            TooManyForms: It has asked enough.
        """
        key = canonical(params.model_dump(mode="json", by_alias=True, exclude={"meta", "elicitation_id"}, exclude_none=True))
        said, place = self._said.setdefault(key, []), self._taken.get(key, 0)
        if place < len(said):
            self._taken[key] = place + 1
            return said[place]
        result = await self.answer_now(params)
        if result.action != "cancel":
            said.append(result)
            self._taken[key] = len(said)
        return result

    async def answer_now(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask a person, whatever they have said before.

        Raises:
            TooManyForms: It has asked enough.
        """
        self._count += 1
        if self._count > MOST:
            raise TooManyForms(f"{self._tool}: stopped after {MOST} questions in one call. Do not retry this tool call in this turn.")
        try:
            return await (self._address(params) if isinstance(params, types.ElicitRequestURLParams) else self._form(params))
        except QuestionError as error:
            return self._is_shown_to_nobody(f"it cannot be shown: {str(error).rstrip('.')}")

    async def _form(self, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        elicited = form_of(params.requested_schema, params.message)
        match await self._answered(elicited.form):
            case NoAnswer() as none:
                return self._without_answer(none)
            case answers:
                return types.ElicitResult.model_validate({"action": "accept", "content": elicited.content(answers)})

    async def _address(self, params: types.ElicitRequestURLParams) -> types.ElicitResult:
        match await self._answered(web_address_form(params.message, params.url)):
            case NoAnswer() as none:
                return self._without_answer(none)
            case answers:
                return types.ElicitResult(action="accept") if opens(answers) else _DECLINE

    async def _answered(self, form: Form) -> Mapping[str, Json] | NoAnswer:
        return NoAnswer("no_prompt_backend") if self._ask is None else await self._ask(form)

    def _without_answer(self, none: NoAnswer) -> types.ElicitResult:
        match none.reason:
            case "reply":
                self.replies.append(none.message)
                return _DECLINE
            case "limit_exceeded":
                raise TooManyForms(none.message or f"{self._tool}: it asked too much. Do not retry this tool call in this turn.")
            case reason:
                return self._is_shown_to_nobody(_WHY.get(reason, reason))

    def _is_shown_to_nobody(self, why: str) -> types.ElicitResult:
        self.unasked.append(why)
        return _CANCEL

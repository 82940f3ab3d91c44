"""What a server asks in the middle of a call, as our questions; what was answered, as the server takes it.

Nobody is invented: what nobody could be shown is `cancel`, and nothing is filled in that a person has not said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from mcp import types

from midturn.core.form import Form
from midturn.core.form.elicitation import form_of
from midturn.core.form.web_address import opens, web_address_form
from midturn.core.json_value import Json, canonical
from midturn.errors import QuestionError

AskForm: TypeAlias = Callable[[Form], Awaitable[Mapping[str, Json] | None]]
"""Asks a form; None where nobody may or can answer."""
_CANCEL = types.ElicitResult(action="cancel")


class ElicitedSoFar:
    """What one call has asked so far: what is asked again after a new start has its answer already."""

    def __init__(self, ask: AskForm) -> None:
        self._ask = ask
        self._answered: dict[bytes, types.ElicitResult] = {}

    async def answer(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask a person, and return what they said."""
        key = canonical(params.model_dump(mode="json", by_alias=True, exclude={"meta", "elicitation_id"}, exclude_none=True))
        if key not in self._answered:
            result = await (self._address(params) if isinstance(params, types.ElicitRequestURLParams) else self._form(params))
            if result.action == "cancel":
                return result
            self._answered[key] = result
        return self._answered[key]

    async def _form(self, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        try:
            elicited = form_of(params.requested_schema, params.message)
        except QuestionError:
            return _CANCEL  # nobody could be shown it
        answers = await self._ask(elicited.form)
        if answers is None:
            return _CANCEL
        content = elicited.content(answers)
        return types.ElicitResult.model_validate({"action": "accept", "content": content})

    async def _address(self, params: types.ElicitRequestURLParams) -> types.ElicitResult:
        answers = await self._ask(web_address_form(params.message, params.url))
        if answers is None:
            return _CANCEL
        return types.ElicitResult(action="accept" if opens(answers) else "decline")

"""What a server asks in the middle of a call, as our questions; what was answered, as the server takes it.

Nobody is invented: what nobody could be shown is `cancel`, and nothing is filled in that a person has not said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

from mcp import types

from midturn.core.form import Form
from midturn.core.form.elicitation import form_of
from midturn.core.json_value import Json, canonical
from midturn.core.question import Question
from midturn.errors import QuestionError

AskForm: TypeAlias = Callable[[Form], Awaitable[Mapping[str, Json] | None]]
"""Asks a form; None where nobody may or can answer."""
_OPEN = "open_address"
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
        answers = await self._ask(Form((address_question(params.message, params.url),)))
        if answers is None:
            return _CANCEL
        return types.ElicitResult(action="accept" if answers.get(_OPEN) is True else "decline")


def address_question(message: str, url: str) -> Question[bool]:
    """Ask whether somebody opens an address: it is shown whole, with its host by itself, and nothing is fetched."""
    try:
        host = urlsplit(url).hostname or "(no host)"
    except ValueError:
        host = "(no host)"
    shown = f"Host: `{host}`" + _spelled(host)
    context = (
        f"{message}\n\n{shown}\n\nAddress: `{url}`\n\nOpen it yourself, in a browser, if you know the host. Nothing was fetched from it."
    )
    return Question.boolean(_OPEN, "Do you want to open this address?", context=context, exclusive=True, persistence="none")


def _spelled(host: str) -> str:
    """Say how a host is spelled that looks like another one."""
    if host.isascii() and "xn--" not in host:
        return ""
    try:
        decoded = host.encode("ascii").decode("idna") if host.isascii() else host
        return f" (international letters: `{decoded}` is `{decoded.encode('idna').decode()}`)"
    except UnicodeError:
        return " (international letters)"

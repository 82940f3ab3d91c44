"""The shapes of a script."""

# Without `from __future__ import annotations`: msgspec reads what stands here, and would compile each annotation from text at every start.

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from midturn.record.exchange import Usage
from midturn.values.json_value import Json

ANY = "*"
Filled: TypeAlias = Annotated[str, Meta(min_length=1)]
Milliseconds: TypeAlias = Annotated[float, Meta(ge=0)]


class ScriptedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call. Without `id` it gets the next free `call_<n>`; `arguments` as a string imitate a call that is not a JSON object."""

    name: Filled
    id: Filled | None = None
    arguments: dict[str, Json] | str = {}


class ScriptedFailure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failing request: an HTTP status (none: the connection broke), and how many seconds the server asks to wait."""

    message: str = ""
    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    retry_after: Annotated[float, Meta(ge=0)] | None = None


class ScriptedUsage(Usage, frozen=True, forbid_unknown_fields=True):
    """What a request counts. A script has no other names in it; what is recorded may have, from newer versions."""

    def counted(self) -> Usage:
        """Return it as a model reports it."""
        return Usage() + self


class ScriptedReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one request gets: text, calls, or an error (after `text`, where both are given: the response is cut).

    `expect` must occur in the newest message. `delay_ms` is the time that the whole reply takes, `chunk` the characters of one delta.
    """

    reasoning: str | None = None
    text: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    error: ScriptedFailure | None = None
    expect: str | None = None
    usage: ScriptedUsage = ScriptedUsage()
    delay_ms: Milliseconds = 0
    chunk: Annotated[int, Meta(ge=1)] | None = None


class ScriptedAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a question to the assistant gets: an answer with its reason, or an error."""

    reason: str | None = None
    answer: Json | UnsetType = UNSET
    error: ScriptedFailure | None = None
    usage: ScriptedUsage = ScriptedUsage()
    delay_ms: Milliseconds = 0


class ScriptedMatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answers to the questions that match; `*` matches every tool or question, and the last answer repeats."""

    answers: Annotated[tuple[ScriptedAnswer, ...], Meta(min_length=1)]
    tool: Filled = ANY
    question: Filled = ANY

    def matches(self, tool: str, question: str) -> bool:
        """Whether this entry answers `question` of `tool`."""
        return self.tool in {ANY, tool} and self.question in {ANY, question}


class Script(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole script: replies in order, and answers for questions that are routed to the assistant."""

    replies: tuple[ScriptedReply, ...] = ()
    inquiries: tuple[ScriptedMatch, ...] = ()

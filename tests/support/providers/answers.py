"""What the loopback server is told to do with a request."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from midturn.question.json_value import JsonObject


class ToolUse(Struct, frozen=True):
    """A call in an answer; `arguments` as a string are sent as they are. One wire has tools in groups: `namespace` names one."""

    name: str
    arguments: JsonObject | str
    id: str = "call_wire"
    namespace: str = ""


class Says(Struct, frozen=True, kw_only=True):
    """A whole answer, streamed word by word.

    `waits_for` holds the answer back until the server has received that many requests; `signature` signs the reasoning; `after` says
    what happens once the first words are out: the connection is cut, nothing comes any more, or something comes that is not an event.
    """

    text: str = ""
    reasoning: str = ""
    signature: str = "c2lnbmVk"
    calls: tuple[ToolUse, ...] = ()
    stop: Literal["stop", "length", "refusal"] = "stop"
    waits_for: int = 0
    after: Literal["goes_on", "cut", "silence", "garbage", "early_end"] = "goes_on"


class Fails(Struct, frozen=True, kw_only=True):
    """An error in place of an answer."""

    status: int
    message: str = "it went wrong"
    code: str = "server_error"
    retry_after: str | None = None


Answer: TypeAlias = Says | Fails

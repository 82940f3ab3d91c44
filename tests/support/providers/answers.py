"""Answers of the loopback provider."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from midturn.question.json_value import JsonObject


class ToolUse(Struct, frozen=True):
    """A tool call in an answer. String `arguments` are sent unchanged. `namespace` is the
    group of the tool on one wire.
    """

    name: str
    arguments: JsonObject | str
    id: str = "call_wire"
    namespace: str = ""


class Says(Struct, frozen=True, kw_only=True):
    """A complete answer, streamed word by word.

    `waits_for` delays the answer until the server has received that many requests. `signature`
    signs the reasoning. `after` is the fault after the first words: the connection is closed, the
    stream stalls, or it sends invalid data.
    """

    text: str = ""
    reasoning: str = ""
    signature: str = "c2lnbmVk"
    calls: tuple[ToolUse, ...] = ()
    stop: Literal["stop", "length", "refusal"] = "stop"
    waits_for: int = 0
    after: Literal["goes_on", "cut", "silence", "garbage", "early_end"] = "goes_on"


class Fails(Struct, frozen=True, kw_only=True):
    """An error instead of an answer."""

    status: int
    message: str = "it went wrong"
    code: str = "server_error"
    retry_after: str | None = None


Answer: TypeAlias = Says | Fails

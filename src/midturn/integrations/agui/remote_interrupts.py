"""Checks interrupts from a remote agent, and converts them to the form in which they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from midturn.integrations.agui.protocol import AguiMessage
from midturn.integrations.agui.run_input import MAX_ID_LENGTH, member
from midturn.integrations.remote_asking import MAX_QUESTIONS, NEEDS_INPUT
from midturn.integrations.remote_http import RemoteError
from midturn.question.answer_type import SecretType
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import (
    Json,
    JsonObject,
    canonical,
    items,
    json_problem,
    members,
    text,
)
from midturn.question.people import moment_of
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.text import single_line

MAX_INTERRUPTS_BYTES: Final = 128 * 1024
"""Maximum total size of the interrupts in a run, in bytes."""
_DEPTH: Final = 64
_SECRET_REASON: Final = "midturn:secret"  # noqa: S105  a reason of an interrupt


class Interrupt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checked interrupt, as it is stored.

    Args:
        id: ID of the interrupt.
        message: The agent's question.
        is_confirmation: Whether the agent asks for a yes or no.
        tool: Name of the call that waits for an approval; empty if there is none.
        arguments: The arguments of this call.
        schema: JSON Schema of the answer, or None.
        deadline: Time of the deadline; empty if there is none.
        question: The recorded question if the agent is another midturn, or None.
        details: Further texts from another midturn: the content to approve, the reason why an
            answer was not recorded, and the place where a secret can be answered.
        waits_for_person: Whether a person has to answer at the remote agent.
    """

    id: str
    message: str = ""
    is_confirmation: bool = False
    tool: str = ""
    arguments: Json = None
    schema: JsonObject | None = None
    deadline: str = ""
    question: JsonObject | None = None
    details: tuple[str, ...] = ()
    waits_for_person: bool = False

    @property
    def text(self) -> str:
        """The question in one line."""
        fallback = f"Run {self.tool}?" if self.tool else NEEDS_INPUT
        return single_line(self.message) or single_line(fallback)

    @property
    def context(self) -> str:
        """The text to show with the question: the full message, the call and the details."""
        call = f"{single_line(self.tool)} {canonical(self.arguments).decode()}" if self.tool else ""
        whole = self.message if self.message.strip() != self.text else ""
        return "\n\n".join(filter(None, (whole, call, *self.details)))


# Checks
# --------------------------------------------------------------------------------------------------


def checked_interrupts(
    given: Sequence[JsonObject], messages: Sequence[AguiMessage]
) -> list[Interrupt]:
    """Check the interrupts of a run and return them.

    Args:
        given: The interrupts, in the format of the protocol.
        messages: The messages of the thread, which contain the calls.

    Raises:
        RemoteError: An interrupt is not valid or asks for a secret, or there are too many.
    """
    if len(given) > MAX_QUESTIONS:
        raise RemoteError(
            f"The remote agent asks {len(given)} questions at once. At most {MAX_QUESTIONS} are"
            " allowed."
        )
    if json_problem(given, _DEPTH) is not None:
        raise RemoteError("The questions of the remote agent cannot be recorded as JSON.")
    found = [_checked(each, messages) for each in given]
    if len({each.id for each in found}) < len(found):
        raise RemoteError("The remote agent asks two questions with the same ID.")
    size = len(msgspec.json.encode(found))
    if size > MAX_INTERRUPTS_BYTES:
        raise RemoteError(
            f"The questions of the remote agent have {size:,} bytes. At most"
            f" {MAX_INTERRUPTS_BYTES:,} are allowed."
        )
    return found


def _checked(given: JsonObject, messages: Sequence[AguiMessage]) -> Interrupt:
    id, schema = member(given, "id"), member(given, "responseSchema")  # noqa: A001  the protocol's name
    if not isinstance(id, str) or not id or len(id) > 2 * MAX_ID_LENGTH:
        raise RemoteError("The remote agent asks a question without a valid ID.")
    if schema is not None and not isinstance(schema, Mapping):
        raise RemoteError("The remote agent asks a question whose schema is not an object.")
    midturn = members(members(given.get("metadata")).get("midturn"))
    reason = text(given.get("reason"))
    waits_for_person = midturn.get("answerable") is False
    asked = members(midturn.get("question"))
    is_secret = reason == _SECRET_REASON or _asks_for_secret(schema) or _is_secret(asked)
    if is_secret and not waits_for_person:
        raise RemoteError(
            "The remote agent asks for a secret. midturn gives no secret to another agent."
        )
    tool, arguments = _call(text(member(given, "toolCallId")), messages)
    if midturn.get("kind") == "run":
        tool, arguments = text(midturn.get("tool")) or tool, midturn.get("arguments")
    is_single = midturn.get("kind") == "tool" and midturn.get("form") is None
    details = (text(midturn.get(name)) for name in ("content", "problem", "where"))
    return Interrupt(
        id=id,
        message=text(member(given, "message")),
        is_confirmation=reason == "confirmation",
        tool=tool if reason == "tool_call" or midturn.get("kind") == "run" else "",
        arguments=arguments,
        schema=members(schema) if schema is not None else None,
        deadline=moment_of(member(given, "expiresAt")) or "",
        question=asked if is_single and asked else None,
        details=tuple(filter(None, details)),
        waits_for_person=waits_for_person,
    )


def _call(id: str, messages: Sequence[AguiMessage]) -> tuple[str, Json]:
    """Return the name and the arguments of a call in the thread, or an empty name if the call is
    not found.
    """
    for message in reversed(messages):
        for call in items(message.get("toolCalls")):
            if id and members(call).get("id") == id:
                function = members(members(call).get("function"))
                given = text(function.get("arguments"))
                try:
                    return text(function.get("name")), read_json(given) if given else {}
                except (NotJson, RecursionError):
                    return text(function.get("name")), given
    return "", None


def _asks_for_secret(schema: Json) -> bool:
    """Return whether a schema, or a part of it, describes a secret."""
    left: list[Json] = [schema]
    while left:
        match left.pop():
            case Mapping() as part:
                if part.get("format") == "password" or part.get("writeOnly") is True:
                    return True
                left += part.values()
            case list() | tuple() as parts:
                left += parts
            case _:
                pass
    return False


def _is_secret(asked: JsonObject) -> bool:
    """Return whether a question from another midturn asks for a secret."""
    try:
        return isinstance(PersistedQuestion.from_json(asked).answer_type, SecretType)
    except msgspec.ValidationError:
        return asked.get("answer_type") == "secret"

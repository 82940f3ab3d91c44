"""Messages from clients: the text that begins a task, or answers to the questions of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from a2a.types.a2a_pb2 import Message, Role
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError
from msgspec import Struct

from midturn.integrations.a2a.wire import data_of
from midturn.question.json_value import Json, JsonObject, members

MAX_TEXT: Final = 256 * 1024
"""Maximum length of a message in characters."""
MAX_ID: Final = 256
"""Maximum length, in characters, of an ID that a client chooses."""
MAX_ANSWERS: Final = 100
_SEPARATOR: Final = "\n\n"


class GivenMessage(Struct, frozen=True, kw_only=True):
    """A message from a client.

    Args:
        id: ID of the message.
        task: ID of the task that the message continues; empty for a new task.
        context: ID of the context; empty for a new context.
        text: The text. Data parts that are not answers are included as JSON.
        answers: The structured answers by address; None if there are none.
    """

    id: str
    task: str
    context: str
    text: str
    answers: Mapping[str, JsonObject] | None


def read_message(message: Message) -> GivenMessage:
    """Check and read a message from a client.

    Raises:
        InvalidParamsError: An ID or a part is not valid.
        ContentTypeNotSupportedError: The message contains a file.
    """
    if message.role == Role.ROLE_AGENT:
        raise InvalidParamsError("message.role must be ROLE_USER.")
    for name, value in (
        ("messageId", message.message_id),
        ("contextId", message.context_id),
        ("taskId", message.task_id),
    ):
        _check_id(name, value)
    texts: list[str] = []
    answers: dict[str, JsonObject] | None = None
    for place, part in enumerate(message.parts):
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text)
            case "data":
                data = data_of(part)
                if members(data).get("midturn") == "answers":
                    answers = {**(answers or {}), **_answers(place, members(data))}
                else:
                    texts.append(msgspec.json.encode(data).decode())
            case "raw" | "url":
                raise ContentTypeNotSupportedError(
                    f"message.parts[{place}] is a file. This agent accepts text and JSON only."
                )
            case _:
                raise InvalidParamsError(f"message.parts[{place}] has no content.")
    text = _SEPARATOR.join(filter(None, texts)).strip()
    if len(text) > MAX_TEXT:
        raise InvalidParamsError(
            f"The message has {len(text):,} characters; at most {MAX_TEXT:,} are accepted."
        )
    if not text and answers is None:
        raise InvalidParamsError("The message has no text.")
    return GivenMessage(
        id=message.message_id,
        task=message.task_id,
        context=message.context_id,
        text=text,
        answers=answers,
    )


def _check_id(name: str, value: str) -> None:
    if len(value) > MAX_ID or (value and not value.isprintable()):
        raise InvalidParamsError(
            f"message.{name} must have at most {MAX_ID} characters, all of them printable."
        )


def _answers(place: int, data: JsonObject) -> dict[str, JsonObject]:
    given: Json = data.get("answers")
    where = f"message.parts[{place}].data.answers"
    if not isinstance(given, Mapping):
        raise InvalidParamsError(f"{where} must be an object with an answer for each question ID.")
    if len(given) > MAX_ANSWERS:
        raise InvalidParamsError(f"{where} has {len(given)} answers; at most {MAX_ANSWERS}.")
    found: dict[str, JsonObject] = {}
    for address, answer in given.items():
        if not isinstance(answer, Mapping):
            raise InvalidParamsError(
                f"{where}[{address!r:.80}] must be an object, such as"
                ' {"answer": …} or {"approved": true}.'
            )
        found[address] = answer
    return found

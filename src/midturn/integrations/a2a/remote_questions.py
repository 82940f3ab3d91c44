"""Converts a remote agent's questions to midturn questions.

A remote agent asks in one of three ways: with midturn's extension, with a function call of Google
ADK, or with plain text. The module `remote_asking` asks people the converted questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
from a2a.types.a2a_pb2 import Part
from msgspec import Struct

from midturn.integrations.a2a.remote_agent import RemoteTask
from midturn.integrations.a2a.wire import data_of, data_part, metadata, metadata_of, text_part
from midturn.integrations.remote_asking import (
    MAX_QUESTIONS,
    NEEDS_INPUT,
    recorded_question,
    short_id,
    text_question,
)
from midturn.integrations.remote_http import RemoteError
from midturn.question.json_value import Json, JsonObject, canonical, members
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question
from midturn.question.text import single_line

_ADK_TYPE: Final = "adk_type"
_ADK_LONG_RUNNING: Final = "adk_is_long_running"


class RemoteQuestion(Struct, frozen=True, kw_only=True):
    """A question from a remote agent.

    Args:
        question: The question to ask a person.
        address: ID of the question if the remote agent is a midturn server; otherwise empty.
        answered: Converts the person's answer and reason to the answer for the remote agent.
        takes_replies: Whether the remote agent accepts text instead of an answer.
    """

    question: Question[Any]
    answered: Callable[[Json, str | None], Json]
    address: str = ""
    takes_replies: bool = False


def remote_questions(task: RemoteTask, prefix: str) -> list[RemoteQuestion]:
    """Return the questions that a task asks.

    Args:
        task: A task that needs input.
        prefix: Beginning of the question IDs.

    Raises:
        RemoteError: All structured questions of the task ask for secrets or cannot be read.
    """
    structured = [*_structured(task.parts, prefix)]
    if structured:
        return structured[:MAX_QUESTIONS]
    if any(_is_structured(part) for part in task.parts):
        raise RemoteError(
            "The remote agent asks for a secret, or in an unknown form. midturn gives no secret to"
            " another agent."
        )
    calls = [*_adk_calls(task.parts, prefix)]
    if calls:
        return calls[:1]
    return [_text_question(task.status_text, prefix)]


def answer_parts(asked: Sequence[RemoteQuestion], answers: Sequence[Json]) -> list[Part]:
    """Return the parts of the message that sends the answers."""
    if asked[0].address:
        by_id: dict[str, Json] = {
            each.address: answer for each, answer in zip(asked, answers, strict=True)
        }
        part = data_part({"midturn": "answers", "answers": by_id})
        return [] if part is None else [part]
    answer = answers[0]
    if isinstance(answer, str):
        return [text_part(answer)]
    part = data_part(answer)
    if part is None:
        return []
    part.metadata.CopyFrom(metadata({_ADK_TYPE: "function_response"}))
    return [part]


# Text
# --------------------------------------------------------------------------------------------------


def _text_question(text: str, prefix: str) -> RemoteQuestion:
    """Return a question that asks for text. The first line of the remote agent's text becomes the
    question. If the text has more lines, the whole text is also the context.
    """
    lines = [line for line in text.strip().splitlines() if line.strip()]
    first = single_line(lines[0]) if lines else NEEDS_INPUT
    context = text if len(lines) > 1 or first != text.strip() else ""
    return RemoteQuestion(question=text_question(prefix, first, context), answered=_as_text)


def _as_text(value: Json, reason: str | None) -> Json:
    del reason  # a plain text answer cannot contain a reason
    return value


# midturn's extension
# --------------------------------------------------------------------------------------------------


def _structured(parts: Sequence[Part], prefix: str) -> Iterator[RemoteQuestion]:
    for part in filter(_is_structured, parts):
        data = members(data_of(part))
        found = _structured_question(data, f"{prefix}_{short_id(data.get('id'))}")
        if found is not None:
            yield found


def _is_structured(part: Part) -> bool:
    """Return whether a part is a question in midturn's extension that this client may answer."""
    if part.WhichOneof("content") != "data":
        return False
    data = members(data_of(part))
    return data.get("midturn") == "question" and data.get("answerable") is True


def _structured_question(data: JsonObject, id: str) -> RemoteQuestion | None:
    """Read a structured question. Return None if it asks for a secret or cannot be read."""
    address = data.get("id")
    try:
        given = PersistedQuestion.from_json(data.get("question"))
    except msgspec.ValidationError:
        return None
    if not isinstance(address, str) or not address:
        return None
    question = recorded_question(given, id, *_subject(data))
    if question is None:
        return None
    is_approval = data.get("kind") in ("run", "deliver", "review")
    digest = data.get("digest")

    def answered(value: Json, reason: str | None) -> Json:
        more: dict[str, Json] = {} if reason is None else {"reason": reason}
        if not is_approval:
            return {"answer": value, **more}
        shown_digest: dict[str, Json] = {"digest": digest} if isinstance(digest, str) else {}
        return {"approved": value is True, **shown_digest, **more}

    return RemoteQuestion(
        question=question, answered=answered, address=address, takes_replies=not is_approval
    )


def _subject(data: JsonObject) -> Iterator[str]:
    if data.get("kind") == "run":
        yield f"{data.get('tool')} {canonical(data.get('arguments')).decode()}"
    content = data.get("content")
    if isinstance(content, str):
        yield content
    problem = data.get("problem")
    if isinstance(problem, str):
        yield problem


# Google ADK
# --------------------------------------------------------------------------------------------------


def _adk_calls(parts: Sequence[Part], prefix: str) -> Iterator[RemoteQuestion]:
    """Yield a question for each long-running function call, with which ADK agents ask."""
    for part in parts:
        marks = metadata_of(part)
        if part.WhichOneof("content") != "data" or marks.get(_ADK_TYPE) != "function_call":
            continue
        call = members(data_of(part))
        name, id = call.get("name"), call.get("id")  # noqa: A001  the name in the protocol
        if marks.get(_ADK_LONG_RUNNING) is not True or not isinstance(name, str):
            continue
        yield _adk_question(name, id, call.get("args"), prefix)


def _adk_question(name: str, call: Json, arguments: Json, prefix: str) -> RemoteQuestion:
    context = f"{single_line(name)} {canonical(arguments).decode()}"
    text = f"{single_line(name)} needs input."

    def answered(value: Json, reason: str | None) -> Json:
        del reason
        return {"id": call, "name": name, "response": {"result": value}}

    return RemoteQuestion(question=text_question(prefix, text, context), answered=answered)

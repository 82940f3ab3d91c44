"""Asks a model a question, and checks the answer. An invalid answer is sent back once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import AnswerError, ContextTooLong, MidturnError, ModelError
from midturn.events.types import InquiryRequest
from midturn.exchange import (
    Finished,
    ModelRequest,
    Spent,
    StructuredPart,
    TextDelta,
    TextPart,
    ToolCallPart,
    Usage,
)
from midturn.ports import Model
from midturn.question.answer import check_answer
from midturn.question.answer_schema import DEFINITIONS, answer_schema, or_null, rooted
from midturn.question.answer_type import BareType, SchemaType, SecretType, TypeTerms, UnknownType
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, JsonObject, json_equal
from midturn.runtime.side_request import (
    ChosenAssistant,
    second_request,
    side_request,
    size,
    trimmed,
)
from midturn.turn.inputs import AssistantFailed, AssistantReplied

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from midturn.exchange import ModelEvent


# --------------------------------------------------------------------------------------------------
# Read the answer from a response


LONGEST: Final = 256 * 1024
"""Maximum length of an answer, in characters. A longer response is cut off."""

_LONGEST_REASON: Final = 2_048  # maximum length of a recorded reason, in characters


class Right(Struct, frozen=True):
    """A response with the right structure. `answer` is not checked against the question yet."""

    answer: Json
    reason: str | None


class Wrong(Struct, frozen=True):
    """A response that is not an answer, with the problem."""

    problem: str


Verdict: TypeAlias = Right | Wrong


def read_answer(finished: Finished) -> Verdict:
    """Return the answer in a response: its structured value, or its text if the whole text is
    one JSON object.
    """
    called = [part.name for part in finished.parts if isinstance(part, ToolCallPart)]
    if called:
        return Wrong(f"it called the tool `{called[0]}` in place of an answer")
    if finished.stop_reason == "refusal":
        return Wrong("the model refused to answer")
    part = next((part for part in finished.parts if isinstance(part, StructuredPart)), None)
    text = "".join(part.text for part in finished.parts if isinstance(part, TextPart))
    if part is None and not text.strip():
        return Wrong(
            "it is empty" if finished.stop_reason != "length" else "it was cut off before it began"
        )
    if len(text) > LONGEST or (part is not None and len(msgspec.json.encode(part.value)) > LONGEST):
        return Wrong(f"it is longer than {LONGEST:,} characters")
    value = _parse(text) if part is None else _only_answer(finished)
    return value if isinstance(value, Wrong) else _shaped(value)


def _only_answer(finished: Finished) -> Json | Wrong:
    """Return the first structured value, or an error if the values contain different answers."""
    first, *others = [part.value for part in finished.parts if isinstance(part, StructuredPart)]
    if any(not json_equal(_answer_in(other), _answer_in(first)) for other in others):
        return Wrong("it gives several answers, and they differ")
    return first


def _answer_in(value: Json) -> Json:
    """Return the answer in a value, without the reason."""
    return value.get("answer") if isinstance(value, Mapping) else value


def _shaped(value: Json) -> Verdict:
    if not isinstance(value, Mapping):
        return Wrong("it is not a JSON object with the keys `reason` and `answer`")
    if "answer" not in value:
        return Wrong("the key `answer` is missing")
    unknown = [key for key in value if key not in {"reason", "answer"}]
    if unknown:
        return Wrong(
            f"the key `{unknown[0]}` does not belong in it; the keys are `reason` and `answer`"
        )
    reason = value.get("reason")
    if reason is not None and not isinstance(reason, str):
        return Wrong("`reason` is not a string")
    return Right(value["answer"], _brief((reason or "").strip()) or None)


def _brief(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}…"


def _parse(text: str) -> Json | Wrong:
    """Parse the text as one JSON object.

    JSON inside other text is ignored, because the text may just quote an answer.
    """
    try:
        return read_json(_unfenced(text.strip()))
    except NotJson as error:
        return Wrong(f"it is not a JSON object with the keys `reason` and `answer` ({error})")


def _unfenced(text: str) -> str:
    """Remove a code fence around the whole text."""
    opening, _, rest = text.partition("\n")
    if opening.strip() in {"```", "```json"} and rest.rstrip().endswith("```"):
        return rest.rstrip().removesuffix("```")
    return text


PartMetadata: TypeAlias = dict[str, Json]
# bytes per token: a low estimate, so that the number of tokens is not underestimated
_BYTES_A_TOKEN = 3
_TRIMS = 3


@runtime_checkable
class Windowed(Protocol):
    """A model that can report its context window."""

    async def context_window(self) -> int | None:
        """Return the context window in tokens, or None if it is unknown."""
        ...


class Consultation(Struct, frozen=True, kw_only=True):
    """One question for a model. `main` is the request that the main model would get now. Its
    `recorded` contains the whole log.
    """

    asked: InquiryRequest
    tool: str
    main: ModelRequest
    settings: ChosenAssistant


async def consult(model: Model, consultation: Consultation) -> AssistantReplied | AssistantFailed:
    """Ask `model`, and return a valid answer or the reason why there is none. Never raises.
    Cancelling the coroutine stops the request.

    An invalid answer, or an answer without a reason, is sent back to the model once. The second
    answer does not need a reason.
    """
    asked = consultation.asked
    kind = asked.question.answer_type
    if isinstance(kind, UnknownType | SecretType):
        return AssistantFailed(
            asked.event_id,
            f"a question of type `{kind.type if isinstance(kind, UnknownType) else 'secret'}` has"
            " no model answer",
        )
    attempt = _Attempt(model, BareType(kind, asked.question.optional))
    try:
        return await attempt.run(consultation)
    except MidturnError as error:
        said = getattr(error, "metadata", None) if isinstance(error, ModelError) else None
        return AssistantFailed(asked.event_id, " ".join(str(error).split()), attempt.metadata(said))
    except Exception as error:  # noqa: BLE001  a model may be a caller's code, and every question gets its response
        return AssistantFailed(
            asked.event_id, " ".join(f"{type(error).__name__}: {error}".split()), attempt.metadata()
        )


class _Attempt:
    """One question, and the usage of its requests."""

    def __init__(self, model: Model, question: BareType) -> None:
        self._model = model
        self._question = question
        self._usage = Usage()

    async def run(self, consultation: Consultation) -> AssistantReplied | AssistantFailed:
        """Ask once, and once more if the answer is invalid or has no reason."""
        asked, schema = consultation.asked, inquiry_schema(self._question)
        request = side_request(
            consultation.main, asked, consultation.tool, consultation.settings, schema
        )
        request, finished = await self._ask_fitting(request)
        verdict = self._checked(read_answer(finished))
        if isinstance(verdict, Right) and verdict.reason is None:
            verdict = Wrong("the key `reason` is missing or empty")
        if isinstance(verdict, Wrong):
            finished = await self._ask(second_request(request, finished.parts, verdict.problem))
            verdict = self._checked(read_answer(finished))
        metadata = self.metadata(
            next((part.metadata for part in reversed(finished.parts) if part.metadata), None)
        )
        match verdict:
            case Right(answer, reason):
                return AssistantReplied(asked.event_id, answer, self._model.name, reason, metadata)
            case Wrong(problem):
                return AssistantFailed(
                    asked.event_id, f"its second answer was wrong too: {problem}", metadata
                )

    def metadata(self, said: Mapping[str, object] | None = None) -> PartMetadata | None:
        """Return the metadata of the response: the model's metadata, and the token usage of all
        requests.
        """
        return (
            cast("PartMetadata", {**(said or {}), **Spent(self._model.name, self._usage).metadata})
            or None
        )

    def _checked(self, verdict: Verdict) -> Verdict:
        if isinstance(verdict, Wrong):
            return verdict
        try:
            return replace(verdict, answer=check_answer(self._question, verdict.answer))
        except AnswerError as error:
            return Wrong(
                "; ".join(
                    f"`answer{problem.pointer}`: {problem.message}" for problem in error.problems
                )
            )

    async def _ask_fitting(self, request: ModelRequest) -> tuple[ModelRequest, Finished]:
        """Ask with as much of the conversation as fits into the model's context window."""
        window = await self._model.context_window() if isinstance(self._model, Windowed) else None
        if window is not None:
            request = _fitted(request, window * _BYTES_A_TOKEN - _overhead(request))
        for _ in range(_TRIMS):
            try:
                return request, await self._ask(request)
            except ContextTooLong:
                request = _fitted(request, size(request.events) // 2)
        return request, await self._ask(request)

    async def _ask(self, request: ModelRequest) -> Finished:
        """Return the response. A response that is too long is cut off."""
        said = ""
        async with aclosing(
            cast("AsyncGenerator[ModelEvent]", self._model.stream(request))
        ) as events:
            async for event in events:
                if isinstance(event, Finished):
                    self._usage += event.usage
                    return event
                said += event.text if isinstance(event, TextDelta) else ""
                if len(said) > LONGEST:
                    return Finished((TextPart(said),), stop_reason="length")
        raise ModelError(f"{self._model.name} stopped before its response was complete.")


def _fitted(request: ModelRequest, room: int) -> ModelRequest:
    """Drop the oldest events of the conversation. The question itself is always kept."""
    *copied, question = request.events
    return replace(request, events=[*trimmed(copied, max(room - size([question]), 0)), question])


def _overhead(request: ModelRequest) -> int:
    """Return the size of the system prompt, the tools and the schema, in bytes."""
    return len(request.system) + len(msgspec.json.encode([request.tools, request.schema]))


# The JSON Schema of an answer ---------------------------------------------------------------------


_REASON: JsonObject = {
    "type": "string",
    "description": "Brief explanation of why you chose this answer.",
}
_TO_DEFINITIONS = tuple(f"#/{keyword}/" for keyword in DEFINITIONS)


def inquiry_schema(question: TypeTerms) -> JsonObject:
    """Return the JSON Schema of `{"reason", "answer"}`, with the keys in the order in which a model
    should write them.

    The definitions of a question's own schema move to the top, where its references and the
    providers expect them.
    """
    answer = answer_schema(question)
    definitions: JsonObject = {}
    if isinstance(question.answer_type, SchemaType):
        root = "#/properties/answer/anyOf/0" if question.optional else "#/properties/answer"
        own = rooted(question.answer_type.schema, root, _TO_DEFINITIONS)
        definitions = {keyword: own[keyword] for keyword in DEFINITIONS if keyword in own}
        answer = or_null(
            question,
            {
                keyword: value
                for keyword, value in own.items()
                if keyword not in {"$schema", *definitions}
            },
        )
    return {
        "type": "object",
        "properties": {"reason": _REASON, "answer": answer},
        "required": ["reason", "answer"],
        "additionalProperties": False,
        **definitions,
    }

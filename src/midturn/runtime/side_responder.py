"""Ask the model, check its answer, give a wrong one back once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import AnswerError, ContextTooLong, MidturnError, ModelError
from midturn.events.types import InquiryRequest
from midturn.exchange import Finished, ModelRequest, Spent, StructuredPart, TextDelta, TextPart, ToolCallPart, Usage
from midturn.ports import Model
from midturn.question.answer import check_answer
from midturn.question.answer_schema import DEFINITIONS, ONE_SCHEMA, SCHEMA_LISTS, SCHEMA_MAPS, answer_schema, or_null
from midturn.question.answer_type import BareType, SchemaType, SecretType, TypeTerms, UnknownType
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, JsonObject, json_equal
from midturn.runtime.side_request import ChosenAssistant, second_request, side_request, size, trimmed
from midturn.turn.step import AssistantFailed, AssistantReplied

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from midturn.exchange import ModelEvent


# ----------------------------------------------------------------------------------------------------------------------
# From a model's response to an answer, or to what is wrong with it


LONGEST: Final = 256 * 1024
"""Characters that an answer may have; the asker stops listening after them."""

_LONGEST_REASON: Final = 2_048  # characters that are kept: it is recorded, shown, and told to the main model


class Right(Struct, frozen=True):
    """A response of the right shape; whether `answer` fits the question is not decided yet."""

    answer: Json
    reason: str | None


class Wrong(Struct, frozen=True):
    """A response that is not an answer, and why."""

    problem: str


Verdict: TypeAlias = Right | Wrong


def read_answer(finished: Finished) -> Verdict:
    """Find the answer in a response: its structured value, or its text where all of that is one JSON object."""
    called = [part.name for part in finished.parts if isinstance(part, ToolCallPart)]
    if called:
        return Wrong(f"it called the tool `{called[0]}` in place of an answer")
    if finished.stop_reason == "refusal":
        return Wrong("the model refused to answer")
    part = next((part for part in finished.parts if isinstance(part, StructuredPart)), None)
    text = "".join(part.text for part in finished.parts if isinstance(part, TextPart))
    if part is None and not text.strip():
        return Wrong("it is empty" if finished.stop_reason != "length" else "it was cut off before it began")
    if len(text) > LONGEST or (part is not None and len(msgspec.json.encode(part.value)) > LONGEST):
        return Wrong(f"it is longer than {LONGEST:,} characters")
    value = _parse(text) if part is None else _only_answer(finished)
    return value if isinstance(value, Wrong) else _shaped(value)


def _only_answer(finished: Finished) -> Json | Wrong:
    """Return the first structured value, unless another one answers differently."""
    first, *others = [part.value for part in finished.parts if isinstance(part, StructuredPart)]
    if any(not json_equal(_answer_in(other), _answer_in(first)) for other in others):
        return Wrong("it gives several answers, and they differ")
    return first


def _answer_in(value: Json) -> Json:
    """Return what is answered, of which there may be several reasons."""
    return value.get("answer") if isinstance(value, Mapping) else value


def _shaped(value: Json) -> Verdict:
    if not isinstance(value, Mapping):
        return Wrong("it is not a JSON object with the keys `reason` and `answer`")
    if "answer" not in value:
        return Wrong("the key `answer` is missing")
    unknown = [key for key in value if key not in {"reason", "answer"}]
    if unknown:
        return Wrong(f"the key `{unknown[0]}` does not belong in it; the keys are `reason` and `answer`")
    reason = value.get("reason")
    if reason is not None and not isinstance(reason, str):
        return Wrong("`reason` is not a string")
    return Right(value["answer"], _brief((reason or "").strip()) or None)


def _brief(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}…"


def _parse(text: str) -> Json | Wrong:
    """Read the text as one JSON object. Nothing is fished out of prose: it may quote an answer that it does not give."""
    try:
        return read_json(_unfenced(text.strip()))
    except NotJson as error:
        return Wrong(f"it is not a JSON object with the keys `reason` and `answer` ({error})")


def _unfenced(text: str) -> str:
    """Take a code fence away that holds the whole text."""
    opening, _, rest = text.partition("\n")
    if opening.strip() in {"```", "```json"} and rest.rstrip().endswith("```"):
        return rest.rstrip().removesuffix("```")
    return text


PartMetadata: TypeAlias = dict[str, Json]
_BYTES_A_TOKEN = 3  # fewer than any text has, so that an estimate errs on the safe side
_TRIMS = 3


@runtime_checkable
class Windowed(Protocol):
    """A model that knows how much it can read."""

    async def context_window(self) -> int | None:
        """Return how many tokens it reads at most; None where that is unknown."""
        ...


class Consultation(Struct, frozen=True, kw_only=True):
    """One question for a model: `main` is what the main model would be sent now, with the whole stream in `recorded`."""

    asked: InquiryRequest
    tool: str
    main: ModelRequest
    settings: ChosenAssistant


async def consult(model: Model, consultation: Consultation) -> AssistantReplied | AssistantFailed:
    """Ask `model`, and return its answer, checked like anybody's, or why there is none. It never raises; cancelling it stops the request.

    A wrong answer, or one without a reason, is given back once; the second answer is taken without a reason, if it fits.
    """
    asked = consultation.asked
    kind = asked.question.answer_type
    if isinstance(kind, UnknownType | SecretType):
        return AssistantFailed(
            asked.event_id, f"a question of type `{kind.type if isinstance(kind, UnknownType) else 'secret'}` has no model answer"
        )
    attempt = _Attempt(model, BareType(kind, asked.question.optional))
    try:
        return await attempt.run(consultation)
    except MidturnError as error:
        said = getattr(error, "metadata", None) if isinstance(error, ModelError) else None
        return AssistantFailed(asked.event_id, " ".join(str(error).split()), attempt.metadata(said))
    except Exception as error:  # noqa: BLE001 (a model may be anybody's code, and every question gets its response)
        return AssistantFailed(asked.event_id, " ".join(f"{type(error).__name__}: {error}".split()), attempt.metadata())


class _Attempt:
    """One question on its way to an answer, and what it has cost so far."""

    def __init__(self, model: Model, question: BareType) -> None:
        self._model = model
        self._question = question
        self._usage = Usage()

    async def run(self, consultation: Consultation) -> AssistantReplied | AssistantFailed:
        """Ask once, and once more if the answer is wrong or has no reason."""
        asked, schema = consultation.asked, inquiry_schema(self._question)
        request = side_request(consultation.main, asked, consultation.tool, consultation.settings, schema)
        request, finished = await self._ask_fitting(request)
        verdict = self._checked(read_answer(finished))
        if isinstance(verdict, Right) and verdict.reason is None:
            verdict = Wrong("the key `reason` is missing or empty")
        if isinstance(verdict, Wrong):
            finished = await self._ask(second_request(request, finished.parts, verdict.problem))
            verdict = self._checked(read_answer(finished))
        metadata = self.metadata(next((part.metadata for part in reversed(finished.parts) if part.metadata), None))
        match verdict:
            case Right(answer, reason):
                return AssistantReplied(asked.event_id, answer, self._model.name, reason, metadata)
            case Wrong(problem):
                return AssistantFailed(asked.event_id, f"its second answer was wrong too: {problem}", metadata)

    def metadata(self, said: Mapping[str, object] | None = None) -> PartMetadata | None:
        """Return what is recorded with the response: what the model wants kept, and the tokens of all requests."""
        return cast("PartMetadata", {**(said or {}), **Spent(self._model.name, self._usage).metadata}) or None

    def _checked(self, verdict: Verdict) -> Verdict:
        if isinstance(verdict, Wrong):
            return verdict
        try:
            return replace(verdict, answer=check_answer(self._question, verdict.answer))
        except AnswerError as error:
            return Wrong("; ".join(f"`answer{problem.pointer}`: {problem.message}" for problem in error.problems))

    async def _ask_fitting(self, request: ModelRequest) -> tuple[ModelRequest, Finished]:
        """Ask with as much of the conversation as the model can read."""
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
        """Return the response; one that does not end is left."""
        said = ""
        async with aclosing(cast("AsyncGenerator[ModelEvent]", self._model.stream(request))) as events:
            async for event in events:
                if isinstance(event, Finished):
                    self._usage += event.usage
                    return event
                said += event.text if isinstance(event, TextDelta) else ""
                if len(said) > LONGEST:
                    return Finished((TextPart(said),), stop_reason="length")
        raise ModelError(f"{self._model.name} stopped before its answer was complete.")


def _fitted(request: ModelRequest, room: int) -> ModelRequest:
    """Drop the oldest events of the copy; the question itself always stays."""
    *copied, question = request.events
    return replace(request, events=[*trimmed(copied, max(room - size([question]), 0)), question])


def _overhead(request: ModelRequest) -> int:
    """Return how many bytes the system prompt, the tools and the schema take."""
    return len(request.system) + len(msgspec.json.encode([request.tools, request.schema]))


# The shape of an answer that a model is asked for ---------------------------------------------------------------------


_REASON: JsonObject = {"type": "string", "description": "Brief explanation of why you chose this answer."}
_TO_DEFINITIONS = tuple(f"#/{keyword}/" for keyword in DEFINITIONS)


def inquiry_schema(question: TypeTerms) -> JsonObject:
    """Return the JSON Schema of `{"reason", "answer"}`, its keys in the order in which a model should write them.

    The definitions of a question's own schema move to the top, where its references and the providers look for them.
    """
    answer = answer_schema(question)
    definitions: JsonObject = {}
    if isinstance(question.answer_type, SchemaType):
        root = "#/properties/answer/anyOf/0" if question.optional else "#/properties/answer"
        own = _rooted(question.answer_type.schema, root)
        definitions = {keyword: own[keyword] for keyword in DEFINITIONS if keyword in own}
        answer = or_null(question, {keyword: value for keyword, value in own.items() if keyword not in {"$schema", *definitions}})
    return {
        "type": "object",
        "properties": {"reason": _REASON, "answer": answer},
        "required": ["reason", "answer"],
        "additionalProperties": False,
        **definitions,
    }


def _rooted(node: JsonObject, root: str) -> JsonObject:
    """Copy a schema for a place inside another one: what it refers to in itself, definitions apart, is now below `root`."""
    return {keyword: _rooted_keyword(keyword, value, root) for keyword, value in node.items()}


def _rooted_keyword(keyword: str, value: Json, root: str) -> Json:
    if keyword == "$ref" and isinstance(value, str):
        return value if value.startswith(_TO_DEFINITIONS) else f"{root}{value[1:]}"
    if keyword in ONE_SCHEMA:
        return _rooted_any(value, root)
    if keyword in SCHEMA_LISTS:
        return [_rooted_any(item, root) for item in cast("Sequence[Json]", value)]
    if keyword in SCHEMA_MAPS:
        return {name: _rooted_any(item, root) for name, item in cast("JsonObject", value).items()}
    return value


def _rooted_any(node: Json, root: str) -> Json:
    return _rooted(node, root) if isinstance(node, Mapping) else node

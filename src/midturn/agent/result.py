"""Result of a run with its usage, and the earlier messages that start a conversation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypedDict, cast

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from midturn.errors import ConfigError, MidturnError, ModelError
from midturn.events.open_question import OpenQuestion
from midturn.events.types import (
    ChatRequest,
    ChatResponse,
    Event,
    TurnEnd,
    TurnStart,
    model_responses,
    user_requests,
)
from midturn.events.window import refused
from midturn.exchange import Spent, Usage, spent_in
from midturn.journal import Journal
from midturn.question.json_value import Json, JsonObject, dumped
from midturn.question.python_types import Mismatch, schema_as_json, value_type
from midturn.question.schema_check import foreign_schema_problems
from midturn.runtime.driver import RunEnding
from midturn.stores.batch import event_id
from midturn.turn.pending import pending_in
from midturn.turn.view import TurnView

# --------------------------------------------------------------------------------------------------
# Token usage


class TurnUsage(Usage, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of a turn, or of one run of the turn, summed over all models. `total` is the sum of
    all tokens.

    `requests` is the number of answered requests, and `by_model` contains the tokens of each
    model. `inquiries` contains the tokens of models that answered questions. These tokens are
    included in the other counts.

    Args:
        input_tokens: Tokens that the models read.
        output_tokens: Tokens that the models wrote.
        cache_read_tokens: Input tokens that a provider read from its cache.
        cache_write_tokens: Input tokens that a provider wrote to its cache.
    """

    requests: int = 0
    by_model: Mapping[str, Usage] = {}
    inquiries: Usage = Usage()

    def to_json(self) -> dict[str, Json]:
        """Return the counts by name, as JSON."""
        counts = Usage(
            self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens
        ).to_json()
        by_model: Json = {name: usage.to_json() for name, usage in self.by_model.items()}
        return {
            **counts,
            "requests": self.requests,
            "by_model": by_model,
            "inquiries": self.inquiries.to_json(),
        }


def turn_usage(spent: Iterable[Spent]) -> TurnUsage:
    """Return the total usage of requests."""
    requests, total, inquiries = 0, Usage(), Usage()
    by_model: dict[str, Usage] = {}
    for request in spent:
        requests += 1
        total += request.usage
        if request.model:
            by_model[request.model] = by_model.get(request.model, Usage()) + request.usage
        if request.is_inquiry:
            inquiries += request.usage
    return TurnUsage(
        total.input_tokens,
        total.output_tokens,
        total.cache_read_tokens,
        total.cache_write_tokens,
        requests=requests,
        by_model=by_model,
        inquiries=inquiries,
    )


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

_MAX_SHOWN = 200  # maximum length of the model's text in an error message, in characters

Status: TypeAlias = Literal["completed", "suspended", "ended_by_user", "failed"]


class RunResult(Struct, Generic[T], frozen=True, kw_only=True):
    """Result of a run: the end of the turn, or the questions that the turn waits for.

    Args:
        conversation: Id of the conversation.
        status: `completed`, `suspended` (questions are open), `ended_by_user` or `failed`.
        text: All messages of the assistant in this turn.
        last_message: The last message of the assistant.
        structured: The answer as a value of the schema's type (`T`), or None without a schema.
        pending: Open questions of a suspended turn.
        refused: Names of tools whose calls failed because no one was attached to answer.
        usage: Recorded usage of the turn, over all its runs and processes.
        run_usage: Usage of this run.
        error: Reason why the turn `failed`.
    """

    conversation: str
    status: Status
    text: str = ""
    last_message: str = ""
    structured: T | None = None
    pending: tuple[OpenQuestion, ...] = ()
    refused: tuple[str, ...] = ()
    usage: TurnUsage = TurnUsage()
    run_usage: TurnUsage = TurnUsage()
    error: str | None = None

    def raise_if_failed(self) -> Self:
        """Return the result itself, unless the turn failed.

        Raises:
            MidturnError: The turn failed. The message contains the error.
        """
        if self.status == "failed":
            raise MidturnError(f"The turn of conversation {self.conversation} failed: {self.error}")
        return self

    def to_json(self) -> dict[str, Json]:
        """Return the result as JSON, for a web service."""
        return {
            "conversation": self.conversation,
            "status": self.status,
            "text": self.text,
            "last_message": self.last_message,
            "structured": cast("Json", msgspec.to_builtins(self.structured, enc_hook=dumped)),
            "pending": [question.to_json() for question in self.pending],
            "refused": list(self.refused),
            "usage": self.usage.to_json(),
            "run_usage": self.run_usage.to_json(),
            "error": self.error,
        }


def schema_of(wanted: JsonObject | type) -> JsonObject:
    """Return the JSON Schema of an answer.

    Raises:
        QuestionError: The type cannot be converted to a JSON Schema.
    """
    return schema_as_json(wanted)[0]


def result_of(
    conversation: str, turn: TurnView, ending: RunEnding, spent: Iterable[Spent] = ()
) -> RunResult[Any]:
    """Build a result from a turn and the usage of this run."""
    said = [*model_responses(turn.events)]
    messages = [event.message for event in said if event.message]
    structured = [event.structured for event in said if event.structured is not UNSET]
    is_suspended = ending.status == "suspended"
    waiting = pending_in(turn, conversation) if is_suspended else ()
    return RunResult(
        conversation=conversation,
        status=cast("Status", ending.status),
        text="\n\n".join(messages),
        last_message=messages[-1] if messages else "",
        structured=structured[-1] if structured else None,
        pending=tuple(waiting),
        refused=tuple(refused(turn.events)),
        usage=turn_usage(spent_in(turn.events)),
        run_usage=turn_usage(spent),
        error=ending.error,
    )


def build_result(
    conversation: str,
    turn: TurnView,
    ending: RunEnding,
    wanted: JsonObject | type | None,
    spent: Iterable[Spent],
) -> RunResult[Any]:
    """Build the result of a run, with the answer as a value of the type `wanted`.

    Raises:
        ModelError: The model was unavailable after all retries. The turn is open.
    """
    if ending.status == "open":
        raise _model_error(conversation, ending.error or "", ending.failure)
    result = result_of(conversation, turn, ending, spent)
    if result.status == "completed" and _lacks_structured(turn.events):
        said = textwrap.shorten(result.text, _MAX_SHOWN, placeholder=" …")
        return replace(
            result,
            status="failed",
            error=f"The model's answer does not have the structure of `schema`: {said!r}",
        )
    return (
        result
        if result.structured is None
        else _with_types(result, wanted, recorded_schema(turn.events))
    )


def _with_types(
    result: RunResult[Any], wanted: JsonObject | type | None, recorded: JsonObject | None
) -> RunResult[Any]:
    """Convert the answer to the type `wanted`. The answer must also match the recorded schema
    with which the turn was started.
    """
    typed = result
    if isinstance(wanted, Mapping):
        typed = checked(result, wanted)
    elif wanted is not None:
        try:
            typed = replace(
                result, structured=value_type(wanted).read(cast("Json", result.structured))
            )
        except Mismatch as mismatch:
            return _invalid(result, str(mismatch))
    if typed.status == "failed" or recorded is None or recorded is wanted:
        return typed
    judged = checked(result, recorded)
    return judged if judged.status == "failed" else typed


def checked(result: RunResult[Any], schema: JsonObject) -> RunResult[Any]:
    """Return a failed result if the answer does not match its schema. Schemas outside of the
    supported subset are not checked here.
    """
    problems = foreign_schema_problems(schema, cast("Json", result.structured))
    return _invalid(result, "; ".join(map(str, problems))) if problems else result


def recorded_schema(turn: Sequence[Event]) -> JsonObject | None:
    """Return the answer schema that a turn was started with, or None."""
    return next(
        (request.schema for request in user_requests(turn) if request.schema is not None), None
    )


def _invalid(result: RunResult[Any], said: str) -> RunResult[Any]:
    return replace(
        result,
        status="failed",
        structured=None,
        error=f"The model's answer does not match the schema: {said}",
    )


def _lacks_structured(turn: Sequence[Event]) -> bool:
    """Return whether the turn was started with a schema and has no structured answer."""
    return recorded_schema(turn) is not None and all(
        said.structured is UNSET for said in model_responses(turn)
    )


def _model_error(conversation: str, message: str, failure: ModelError | None) -> ModelError:
    said = (
        f"{message.rstrip('.')}. The turn of conversation {conversation} is open. Resume it with"
        f" `await agent.resume({conversation!r})`."
    )
    if failure is None:
        error = ModelError(said)
    else:
        error = ModelError(
            said,
            status=failure.status,
            retry_after=failure.retry_after,
            transient=failure.transient,
        )
        if failure.failure:
            error.failure = failure.failure
    error.conversation = conversation
    error.__cause__ = failure
    return error


# --------------------------------------------------------------------------------------------------
# Earlier messages that start a conversation


class HistoryMessage(TypedDict):
    """An earlier message of the user or the assistant."""

    role: Literal["user", "assistant"]
    content: str


async def record_history(journal: Journal, history: Sequence[HistoryMessage]) -> None:
    """Record earlier messages as completed turns. Each user message starts a turn.

    Raises:
        ConfigError: The conversation is not empty, an item is not a message, or the first message
            is not the user's.
        StoreError: The messages cannot be recorded.
    """
    if history and journal.events:
        raise ConfigError(
            f"`history` can only start a new conversation, but conversation {journal.conversation}"
            " already has events."
        )
    batch: list[Event] = []
    for place, message in enumerate(history):
        role, content = _read_message(place, message)
        if role == "user":
            batch += [
                *_turn_end(batch),
                TurnStart(event_id=event_id()),
                ChatRequest(event_id=event_id(), content=content),
            ]
        elif not batch:
            raise ConfigError("history[0]: the first message must have the role `user`.")
        else:
            batch.append(ChatResponse(event_id=event_id(), message=content))
    if batch:
        await journal.append([*batch, *_turn_end(batch)])


def _turn_end(batch: Sequence[Event]) -> list[Event]:
    return [TurnEnd(event_id=event_id(), status="completed")] if batch else []


def _read_message(place: int, message: object) -> tuple[str, str]:
    said = cast("dict[str, object]", message) if isinstance(message, dict) else {}
    role, content = said.get("role"), said.get("content")
    if role not in ("user", "assistant") or not isinstance(content, str):
        raise ConfigError(
            f'history[{place}]: a message must be {{"role": "user", "content": "…"}}, or one with'
            " the role `assistant`."
        )
    return str(role), content

"""Results of a run, with their cost, and earlier messages that a conversation begins with."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypedDict, cast

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from midturn.errors import ConfigError, MidturnError, ModelError
from midturn.events.open_question import OpenQuestion
from midturn.events.types import ChatRequest, ChatResponse, Event, TurnEnd, TurnStart, model_responses, user_requests
from midturn.events.window import refused
from midturn.exchange import Spent, Usage, spent_in
from midturn.journal import Journal
from midturn.question.json_value import Json, JsonObject, dumped
from midturn.question.python_types import Mismatch, schema_as_json, value_type
from midturn.question.schema_check import misfits
from midturn.runtime.driver import RunEnding
from midturn.stores.batch import event_id
from midturn.turn.pending import pending_in
from midturn.turn.view import TurnView

# ----------------------------------------------------------------------------------------------------------------------
# Usage of a run


class TurnUsage(Usage, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of a turn or of one run of it, of all its models together; `total` is their sum.

    `requests` counts the requests that were answered, `by_model` the tokens of each model, and `inquiries` those of models that answered
    questions, which are in the others, too.

    Args:
        input_tokens: What the models read.
        output_tokens: What they wrote.
        cache_read_tokens: What of it a provider had kept.
        cache_write_tokens: What it has kept now.
    """

    requests: int = 0
    by_model: Mapping[str, Usage] = {}
    inquiries: Usage = Usage()

    def to_json(self) -> dict[str, Json]:
        """Return the counts by name."""
        counts = Usage(self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens).to_json()
        by_model: Json = {name: usage.to_json() for name, usage in self.by_model.items()}
        return {**counts, "requests": self.requests, "by_model": by_model, "inquiries": self.inquiries.to_json()}


def turn_usage(spent: Iterable[Spent]) -> TurnUsage:
    """Return what requests have cost together."""
    requests, whole, inquiries = 0, Usage(), Usage()
    by_model: dict[str, Usage] = {}
    for request in spent:
        requests += 1
        whole += request.usage
        if request.model:
            by_model[request.model] = by_model.get(request.model, Usage()) + request.usage
        if request.is_inquiry:
            inquiries += request.usage
    return TurnUsage(
        whole.input_tokens,
        whole.output_tokens,
        whole.cache_read_tokens,
        whole.cache_write_tokens,
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

_MOST_SAID = 200  # characters of an answer that an error shows

Status: TypeAlias = Literal["completed", "suspended", "ended_by_user", "failed"]


class RunResult(Struct, Generic[T], frozen=True, kw_only=True):
    """The end of a turn, or the questions that it waits for.

    `text` is all that the assistant said in this turn, and `last_message` the last message of it. `structured` is the answer where a schema
    was given (`T`), else None. `pending` are the open questions of a suspended turn; `refused` names the tools whose calls failed because
    no human was there. `usage` is what the turn has cost as far as it is recorded, over all its runs and processes, and `run_usage` what
    this run has. `error` says why a turn `failed`.

    Args:
        conversation: The id of the conversation.
        status: `completed`, `suspended` (questions are open), `ended_by_user` or `failed`.
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
            MidturnError: It failed; the message says why.
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
        QuestionError: No schema can be made from the type.
    """
    return schema_as_json(wanted)[0]


def result_of(conversation: str, turn: TurnView, ending: RunEnding, spent: Iterable[Spent] = ()) -> RunResult[Any]:
    """Read a result from a turn, and from what the requests of this run have cost."""
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


def finished(
    conversation: str, turn: TurnView, ending: RunEnding, wanted: JsonObject | type | None, spent: Iterable[Spent]
) -> RunResult[Any]:
    """Read what a run came to, with the answer as a value of the type that was `wanted`.

    Raises:
        ModelError: The model stayed down; the turn is open.
    """
    if ending.status == "open":
        raise _model_is_down(conversation, ending.error or "", ending.failure)
    result = result_of(conversation, turn, ending, spent)
    if result.status == "completed" and _lacks_shape(turn.events):
        said = textwrap.shorten(result.text, _MOST_SAID, placeholder=" …")
        return replace(result, status="failed", error=f"The answer of the model is not in the shape that `schema` asks for: {said!r}")
    return result if result.structured is None else _shaped(result, wanted, recorded_schema(turn.events))


def _shaped(result: RunResult[Any], wanted: JsonObject | type | None, recorded: JsonObject | None) -> RunResult[Any]:
    """Return the answer as what is `wanted`. What the turn was begun with counts as well, in whichever process it goes on."""
    typed = result
    if isinstance(wanted, Mapping):
        typed = checked(result, wanted)
    elif wanted is not None:
        try:
            typed = replace(result, structured=value_type(wanted).read(cast("Json", result.structured)))
        except Mismatch as mismatch:
            return _misfit(result, str(mismatch))
    if typed.status == "failed" or recorded is None or recorded is wanted:
        return typed
    judged = checked(result, recorded)
    return judged if judged.status == "failed" else typed


def checked(result: RunResult[Any], schema: JsonObject) -> RunResult[Any]:
    """Let an answer fail that does not fit its schema; one of more than the closed subset is checked by the model's provider alone."""
    problems = misfits(schema, cast("Json", result.structured))
    return _misfit(result, "; ".join(map(str, problems))) if problems else result


def recorded_schema(turn: Sequence[Event]) -> JsonObject | None:
    """Return the shape that the answer of a turn is to have, as the turn was begun with it."""
    return next((request.schema for request in user_requests(turn) if request.schema is not None), None)


def _misfit(result: RunResult[Any], said: str) -> RunResult[Any]:
    return replace(result, status="failed", structured=None, error=f"The answer of the model does not fit: {said}")


def _lacks_shape(turn: Sequence[Event]) -> bool:
    """Say whether the turn was begun with a schema, and no answer came in its shape."""
    return recorded_schema(turn) is not None and all(said.structured is UNSET for said in model_responses(turn))


def _model_is_down(conversation: str, message: str, failure: ModelError | None) -> ModelError:
    said = (
        f"{message.rstrip('.')}. The turn of conversation {conversation} is open: `await agent.resume({conversation!r})` goes on with it."
    )
    if failure is None:
        error = ModelError(said)
    else:
        error = ModelError(said, status=failure.status, retry_after=failure.retry_after, transient=failure.transient)
        if failure.failure:
            error.failure = failure.failure
    error.conversation = conversation
    error.__cause__ = failure
    return error


# ----------------------------------------------------------------------------------------------------------------------
# Earlier messages, with which a conversation begins


class HistoryMessage(TypedDict):
    """One earlier message: what the user said, or what the assistant answered."""

    role: Literal["user", "assistant"]
    content: str


async def begin_with(journal: Journal, history: Sequence[HistoryMessage]) -> None:
    """Record earlier messages as turns that are over; each message of the user begins one.

    Raises:
        ConfigError: The conversation has begun already; or something in it is not a message, or the first one is not the user's.
        StoreError: It cannot be recorded.
    """
    if history and journal.events:
        raise ConfigError(f"`history` begins a conversation; {journal.conversation} has begun already.")
    batch: list[Event] = []
    for place, message in enumerate(history):
        role, content = _read(place, message)
        if role == "user":
            batch += [*_ended(batch), TurnStart(event_id=event_id()), ChatRequest(event_id=event_id(), content=content)]
        elif not batch:
            raise ConfigError("history[0]: the first message is the user's (`role` is `user`).")
        else:
            batch.append(ChatResponse(event_id=event_id(), message=content))
    if batch:
        await journal.append([*batch, *_ended(batch)])


def _ended(batch: Sequence[Event]) -> list[Event]:
    return [TurnEnd(event_id=event_id(), status="completed")] if batch else []


def _read(place: int, message: object) -> tuple[str, str]:
    said = cast("dict[str, object]", message) if isinstance(message, dict) else {}
    role, content = said.get("role"), said.get("content")
    if role not in ("user", "assistant") or not isinstance(content, str):
        raise ConfigError(f'history[{place}]: a message is {{"role": "user", "content": "…"}}, or one with the role `assistant`.')
    return str(role), content

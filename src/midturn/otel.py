"""OpenTelemetry (extra `otel`): spans of turns, requests to models, tool calls and questions; metrics of answers and turns.

```python
import midturn.otel

midturn.otel.instrument()
midturn.otel.measure(store=store)
```

The span of a question is as long as the wait for its answer, and says who answered, and not what. A run that goes on with a turn,
and an answer that comes while no process runs it, are linked to the run that left it open, where that was in this process. Nothing that
people or models wrote is in a span, unless `content=True`; nothing of it is in a metric, nor any name that has no end of values.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer, TracerProvider
except ModuleNotFoundError as error:
    from midturn.extras import install_command

    raise ModuleNotFoundError(f"Spans and metrics need the extra `otel`: {install_command('otel')}", name=error.name) from error

from midturn.errors import StoreError
from midturn.events.open_question import OpenQuestion
from midturn.events.transcript import ApprovalEntry, ResponseEntry, entry_among
from midturn.events.types import AnsweredBy, Event, ToolCall
from midturn.events.window import open_turn
from midturn.exchange import Finished, ModelRequest
from midturn.journal import Journal
from midturn.ports import OBSERVERS, Happening, Recorded, RequestObservation, RunObservation, ToolBegan, ToolEnded
from midturn.stores.store import ConversationStore

_LOG = logging.getLogger("midturn.otel")
_NANO = 1_000_000_000
_LOOK: Final = 10.0
"""Seconds for which what was found in a store is told again: several exporters do not ask it several times."""
_MOST_LEFT = 1_000  # open turns whose last run is remembered


def instrument(tracer_provider: TracerProvider | None = None, *, content: bool = False) -> None:
    """Make spans of everything that midturn does in this process from now on; calling it again replaces what was set.

    Args:
        tracer_provider: Where the spans go; the global one of OpenTelemetry where none is given.
        content: Put questions, answers, arguments and results into the spans, too. Secrets are never in them.
    """
    _leave(_Spans)
    OBSERVERS.append(_Spans(trace.get_tracer("midturn", tracer_provider=tracer_provider), content=content))


def measure(meter_provider: MeterProvider | None = None, *, store: ConversationStore | None = None) -> None:
    """Measure what midturn does in this process from now on; calling it again replaces what was set.

    Args:
        meter_provider: Where the metrics go; the global one of OpenTelemetry where none is given.
        store: Whose open questions are counted, whenever metrics are collected. One process does that for all that share a store.
    """
    _leave(_Metrics)
    OBSERVERS.append(_Metrics(metrics.get_meter("midturn", meter_provider=meter_provider), store))


def uninstrument() -> None:
    """Make no more spans, and measure nothing more."""
    _leave(_Spans)
    _leave(_Metrics)


def _leave(kind: type[_Spans | _Metrics]) -> None:
    for observer in [observer for observer in OBSERVERS if isinstance(observer, kind)]:
        OBSERVERS.remove(observer)
        observer.close()


# ----------------------------------------------------------------------------------------------------------------------
# Spans


class _Spans:
    def __init__(self, tracer: Tracer, *, content: bool) -> None:
        self.tracer = tracer
        self.content = content
        self._left: OrderedDict[str, SpanContext] = OrderedDict()

    def left(self, conversation: str, run: Span) -> None:
        """Keep the span of a run whose turn stays open, for those that belong to it later."""
        self._left[conversation] = run.get_span_context()
        self._left.move_to_end(conversation)
        if len(self._left) > _MOST_LEFT:
            self._left.popitem(last=False)

    def ended(self, conversation: str) -> None:
        """Forget a turn that is over."""
        self._left.pop(conversation, None)

    def links(self, conversation: str) -> list[Link]:
        """Return the link to the run that left the turn open, if it was one of this process."""
        return [Link(self._left[conversation])] if conversation in self._left else []

    def run_began(self, journal: Journal) -> RunObservation:
        return _Run(self, journal)

    def request_began(self, model: str, request: ModelRequest) -> RequestObservation:
        return _Request(self, model, request)

    def close(self) -> None:
        """Leave the spans that are begun to their runs."""

    def refused(self, error: Exception) -> None:
        """Make no span: nothing has happened to the question."""

    def claimed(self, events: Sequence[Event]) -> None:
        """Make no span: the run has one."""

    def answered(self, conversation: str, turn: Sequence[Event], batch: Sequence[Event]) -> None:
        for event in batch:
            self.question(conversation, turn, event, self.links(conversation))

    def question(self, conversation: str, turn: Sequence[Event], event: Event, links: Sequence[Link] = ()) -> None:
        """Make the span of a question that has its response: it began when the question was asked."""
        entry = entry_among(turn, event)
        if not isinstance(entry, ResponseEntry) or entry.request is None:
            return
        asked, response = entry.request.event, entry.event
        attributes: dict[str, str] = {
            "gen_ai.conversation.id": conversation,
            "midturn.question.id": asked.question_id or "",
            "midturn.question.asked_by": asked.source.header,
            "midturn.question.outcome": response.outcome,
        }
        if response.outcome == "cancelled":
            attributes["midturn.question.reason"] = response.reason
        elif who := response.answered_by:
            fields = {"by": who.by, "user": who.user, "via": who.via, "name": who.name}
            attributes |= {f"midturn.answered.{name}": value for name, value in fields.items() if value}
        if self.content:
            attributes["midturn.question.text"] = asked.question.text
            if response.outcome == "answered":
                attributes["midturn.answer"] = _text(response.answer)
        span = self.tracer.start_span(
            f"ask {asked.question_id or asked.source.header}",
            start_time=_nanoseconds(asked),
            attributes=attributes,
            kind=SpanKind.INTERNAL,
            links=links,
        )
        span.end(end_time=_nanoseconds(event))


class _Run:
    """The span of one run of a turn; all others of the run are below it."""

    def __init__(self, spans: _Spans, journal: Journal) -> None:
        self._spans = spans
        self._journal = journal
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": journal.conversation}
        links = spans.links(journal.conversation)
        self._span = spans.tracer.start_span("invoke_agent midturn", attributes=attributes, links=links)
        self._token = context.attach(trace.set_span_in_context(self._span))
        self._calls: dict[str, Span] = {}

    def show(self, happening: Happening) -> None:
        match happening:
            case Recorded(event):
                self._spans.question(self._journal.conversation, self._journal.events, event)
            case ToolBegan(call, again=False):
                self._calls[call.event] = self._began(call)
            case ToolEnded(call, content, is_error, exception) if call.event in self._calls:
                span = self._calls.pop(call.event)
                if self._spans.content:
                    span.set_attribute("gen_ai.tool.call.result", content)
                if is_error:
                    span.set_attribute("error.type", type(exception).__name__ if exception else "tool_error")
                    span.set_status(Status(StatusCode.ERROR))
                span.end()
            case _:
                pass  # what a span need not hold

    def end(self, status: str) -> None:
        for span in self._calls.values():  # calls that wait for an absent person
            span.set_attribute("midturn.call.suspended", value=True)
            span.end()
        self._span.set_attribute("midturn.turn.status", status)
        if status in ("suspended", "open"):
            self._spans.left(self._journal.conversation, self._span)
        else:
            self._spans.ended(self._journal.conversation)
        if status in ("failed", "open"):
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
        context.detach(self._token)

    def _began(self, call: ToolCall) -> Span:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.conversation.id": self._journal.conversation,
        }
        if self._spans.content:
            attributes["gen_ai.tool.call.arguments"] = _text(call.arguments)
        return self._spans.tracer.start_span(f"execute_tool {call.name}", attributes=attributes)


class _Request:
    """The span of one request to a model."""

    def __init__(self, spans: _Spans, model: str, request: ModelRequest) -> None:
        provider, _, name = model.rpartition("/")
        attributes: Mapping[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider or "midturn",
            "gen_ai.request.model": name,
            "gen_ai.conversation.id": request.conversation,
            "midturn.request.answers_a_question": request.inquiry is not None,
        }
        self._span = spans.tracer.start_span(f"chat {name}", kind=SpanKind.CLIENT, attributes=attributes)

    def end(self, finished: Finished | None, error: BaseException | None) -> None:
        if finished is not None:
            self._span.set_attribute("gen_ai.usage.input_tokens", finished.usage.input_tokens)
            self._span.set_attribute("gen_ai.usage.output_tokens", finished.usage.output_tokens)
            self._span.set_attribute("gen_ai.response.finish_reasons", (finished.stop_reason,))
        elif error is not None:
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


# ----------------------------------------------------------------------------------------------------------------------
# Metrics


_BUCKETS: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0)
"""Seconds that an answer takes: a model's, a person's at the terminal, one's of the next day."""
_CLAIMS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0, 300.0)


class _Metrics:
    def __init__(self, meter: Meter, store: ConversationStore | None) -> None:
        self._store = store
        self._found: tuple[float, Sequence[float]] | None = None
        self.active = meter.create_up_down_counter("midturn.turns.active", "{turn}", "Turns that run in this process.")
        self.resumes = meter.create_counter("midturn.turns.resumed", "{turn}", "Open turns that were gone on with.")
        self.answers = meter.create_counter("midturn.answers", "{answer}", "Questions and approvals that were closed.")
        self.seconds = meter.create_histogram(
            "midturn.answer.duration", "s", "Time from a question to its answer.", explicit_bucket_boundaries_advisory=_BUCKETS
        )
        self._refusals = meter.create_counter("midturn.answers.refused", "{answer}", "Answers from outside that were not taken.")
        self._claims = meter.create_histogram(
            "midturn.claim.duration",
            "s",
            "Time from the last event of a due turn to its claim.",
            explicit_bucket_boundaries_advisory=_CLAIMS,
        )
        if store is not None:
            meter.create_observable_gauge("midturn.questions.open", [self._open], "{question}", "Questions that wait for an answer.")
            meter.create_observable_gauge("midturn.questions.age", [self._ages], "s", "Age of the open questions, by quantile.")

    def close(self) -> None:
        """Count no open questions any more: a provider never forgets a gauge."""
        self._store = None

    def run_began(self, journal: Journal) -> RunObservation:
        if open_turn(journal.events):
            self.resumes.add(1)
        self.active.add(1)
        return _MeasuredRun(self, journal)

    def request_began(self, model: str, request: ModelRequest) -> RequestObservation:
        del model, request
        return _Unmeasured()

    def refused(self, error: Exception) -> None:
        self._refusals.add(1, {"error.type": type(error).__name__})

    def claimed(self, events: Sequence[Event]) -> None:
        if events:
            self._claims.record(_since(events[-1].at))

    def answered(self, conversation: str, turn: Sequence[Event], batch: Sequence[Event]) -> None:
        del conversation
        for event in batch:
            self.count(turn, event)

    def count(self, turn: Sequence[Event], event: Event) -> None:
        """Count a question, or a decision about a call, that is closed by an event."""
        match entry_among(turn, event):
            case ApprovalEntry(event=decision) as entry if not entry.waits:
                asked = entry.put
                attributes = {"midturn.outcome": decision.state, **_who(decision.answered_by)}
            case ResponseEntry(event=response, request=request):
                asked = request.event if request else None
                attributes = {"midturn.outcome": response.outcome}
                attributes |= {"midturn.reason": response.reason} if response.outcome == "cancelled" else _who(response.answered_by)
            case _:
                return
        self.answers.add(1, attributes)
        if asked is not None:
            self.seconds.record(max(0.0, (event.at - asked.at).total_seconds()), attributes)

    def _open(self, _: CallbackOptions) -> Iterable[Observation]:
        if (ages := self._looked()) is not None:
            yield Observation(len(ages))

    def _ages(self, _: CallbackOptions) -> Iterable[Observation]:
        ages = self._looked() or ()
        for quantile in (0.5, 0.9, 1.0) if ages else ():
            yield Observation(ages[min(len(ages) - 1, int(len(ages) * quantile))], {"quantile": str(quantile)})

    def _looked(self) -> Sequence[float] | None:
        """Return how old the open questions are, the youngest first; None where the store is away, or is left."""
        store, now = self._store, time.monotonic()
        if store is None:
            return None
        if self._found is None or now - self._found[0] > _LOOK:
            try:
                self._found = now, sorted(map(_age, store.pending_sync()))
            except StoreError as error:
                _LOG.debug("open questions cannot be counted for now: %s", error)
                return None
        return self._found[1]


class _MeasuredRun:
    def __init__(self, measured: _Metrics, journal: Journal) -> None:
        self._measured = measured
        self._journal = journal

    def show(self, happening: Happening) -> None:
        if isinstance(happening, Recorded):
            self._measured.count(self._journal.events, happening.event)

    def end(self, status: str) -> None:
        del status
        self._measured.active.add(-1)


class _Unmeasured:
    def end(self, finished: Finished | None, error: BaseException | None) -> None:
        """Measure nothing: libraries of providers do."""


def _who(answered_by: AnsweredBy | None) -> Mapping[str, str]:
    """Return the kind of answerer, and by which way they answered: never who it was, which would make a series of each person."""
    if answered_by is None:
        return {}
    return {"midturn.answered.by": answered_by.by, **({"midturn.answered.via": answered_by.via} if answered_by.via else {})}


def _age(question: OpenQuestion) -> float:
    return _since(datetime.fromisoformat(question.asked_at))


def _since(moment: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - moment).total_seconds())


def _nanoseconds(event: Event) -> int:
    return int(event.at.timestamp() * _NANO)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

"""OpenTelemetry (extra `otel`): spans for turns, model requests, tool calls and questions; metrics
for answers and turns.

```python
import midturn.otel

midturn.otel.instrument()
midturn.otel.measure(store=store)
```

The span of a question lasts until the answer. It names the responder, but does not contain the
answer. If a run in this process left a turn open, the run that resumes the turn links to it, and so
does an answer that is recorded while no run is active. Without `content=True`, spans contain no
text from people or models. Metrics never contain such text, and have no attributes with unbounded
values.
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
    from opentelemetry.trace import (
        Link,
        Span,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        Tracer,
        TracerProvider,
    )
except ModuleNotFoundError as error:
    from midturn.extras import install_command

    raise ModuleNotFoundError(
        f"midturn.otel requires the extra `otel`. To install it: {install_command('otel')}",
        name=error.name,
    ) from error

from midturn.errors import StoreError
from midturn.events.open_question import OpenQuestion
from midturn.events.transcript import ApprovalEntry, ResponseEntry, entry_among
from midturn.events.types import AnsweredBy, Event, ToolCall
from midturn.events.window import open_turn
from midturn.exchange import Finished, ModelRequest
from midturn.journal import Journal
from midturn.ports import (
    OBSERVERS,
    Happening,
    Recorded,
    RequestObservation,
    RunObservation,
    ToolBegan,
    ToolEnded,
)
from midturn.stores.store import ConversationStore

_LOG = logging.getLogger("midturn.otel")
_NANO = 1_000_000_000
_CACHE_SECONDS: Final = 10.0
"""Seconds for which a count of open questions is reused, so that several exporters query the
store once.
"""
# maximum number of open turns whose last run is remembered, for links from later spans
_MAX_OPEN_TURNS = 1_000


def instrument(tracer_provider: TracerProvider | None = None, *, content: bool = False) -> None:
    """Create spans for all runs in this process from now on. A second call replaces the settings of
    the first.

    Args:
        tracer_provider: Provider of the tracer (default: the global one).
        content: Whether the spans include questions, answers, arguments and results. Secrets are
            never included.
    """
    _remove(_Spans)
    OBSERVERS.append(
        _Spans(trace.get_tracer("midturn", tracer_provider=tracer_provider), content=content)
    )


def measure(
    meter_provider: MeterProvider | None = None, *, store: ConversationStore | None = None
) -> None:
    """Record metrics of this process from now on. A second call replaces the settings of the first.

    Args:
        meter_provider: Provider of the meter (default: the global one).
        store: Store whose open questions are counted when metrics are collected. Pass it in one
            process per shared store.
    """
    _remove(_Metrics)
    OBSERVERS.append(_Metrics(metrics.get_meter("midturn", meter_provider=meter_provider), store))


def uninstrument() -> None:
    """Stop creating spans and recording metrics."""
    _remove(_Spans)
    _remove(_Metrics)


def _remove(kind: type[_Spans | _Metrics]) -> None:
    for observer in [observer for observer in OBSERVERS if isinstance(observer, kind)]:
        OBSERVERS.remove(observer)
        observer.close()


# --------------------------------------------------------------------------------------------------
# Spans


class _Spans:
    def __init__(self, tracer: Tracer, *, content: bool) -> None:
        self.tracer = tracer
        self.content = content
        self._open_runs: OrderedDict[str, SpanContext] = OrderedDict()

    def keep_open(self, conversation: str, run: Span) -> None:
        """Remember the run that left a turn open, for links from later spans."""
        self._open_runs[conversation] = run.get_span_context()
        self._open_runs.move_to_end(conversation)
        if len(self._open_runs) > _MAX_OPEN_TURNS:
            self._open_runs.popitem(last=False)

    def forget(self, conversation: str) -> None:
        """Forget a turn that has ended."""
        self._open_runs.pop(conversation, None)

    def links(self, conversation: str) -> list[Link]:
        """Return a link to the run that left the turn open, if it ran in this process."""
        return [Link(self._open_runs[conversation])] if conversation in self._open_runs else []

    def run_began(self, journal: Journal) -> RunObservation:
        return _Run(self, journal)

    def request_began(self, model: str, request: ModelRequest) -> RequestObservation:
        return _Request(self, model, request)

    def close(self) -> None:
        """Do nothing: runs end their own spans."""

    def refused(self, error: Exception) -> None:
        """Create no span, since the question does not change."""

    def claimed(self, events: Sequence[Event]) -> None:
        """Create no span, since the run has one."""

    def answered(self, conversation: str, turn: Sequence[Event], batch: Sequence[Event]) -> None:
        for event in batch:
            self.question(conversation, turn, event, self.links(conversation))

    def question(
        self, conversation: str, turn: Sequence[Event], event: Event, links: Sequence[Link] = ()
    ) -> None:
        """Create the span of a closed question. It starts when the question was asked."""
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
            attributes |= {
                f"midturn.answered.{name}": value for name, value in fields.items() if value
            }
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
    """The span of one run of a turn, parent of all other spans of the run."""

    def __init__(self, spans: _Spans, journal: Journal) -> None:
        self._spans = spans
        self._journal = journal
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": journal.conversation,
        }
        links = spans.links(journal.conversation)
        self._span = spans.tracer.start_span(
            "invoke_agent midturn", attributes=attributes, links=links
        )
        self._token = context.attach(trace.set_span_in_context(self._span))
        self._calls: dict[str, Span] = {}

    def show(self, happening: Happening) -> None:
        match happening:
            case Recorded(event):
                self._spans.question(self._journal.conversation, self._journal.events, event)
            case ToolBegan(call, again=False):
                self._calls[call.event] = self._start_call(call)
            case ToolEnded(call, content, is_error, exception) if call.event in self._calls:
                span = self._calls.pop(call.event)
                if self._spans.content:
                    span.set_attribute("gen_ai.tool.call.result", content)
                if is_error:
                    span.set_attribute(
                        "error.type", type(exception).__name__ if exception else "tool_error"
                    )
                    span.set_status(Status(StatusCode.ERROR))
                span.end()
            case _:
                pass  # other events are not part of a span

    def end(self, status: str) -> None:
        for span in self._calls.values():  # calls that wait for an answer
            span.set_attribute("midturn.call.suspended", value=True)
            span.end()
        self._span.set_attribute("midturn.turn.status", status)
        if status in ("suspended", "open"):
            self._spans.keep_open(self._journal.conversation, self._span)
        else:
            self._spans.forget(self._journal.conversation)
        if status in ("failed", "open"):
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
        context.detach(self._token)

    def _start_call(self, call: ToolCall) -> Span:
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
        self._span = spans.tracer.start_span(
            f"chat {name}", kind=SpanKind.CLIENT, attributes=attributes
        )

    def end(self, finished: Finished | None, error: BaseException | None) -> None:
        if finished is not None:
            self._span.set_attribute("gen_ai.usage.input_tokens", finished.usage.input_tokens)
            self._span.set_attribute("gen_ai.usage.output_tokens", finished.usage.output_tokens)
            self._span.set_attribute("gen_ai.response.finish_reasons", (finished.stop_reason,))
        elif error is not None:
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


# --------------------------------------------------------------------------------------------------
# Metrics


_BUCKETS: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0)
"""Bucket boundaries in seconds of the histogram of response times. Models answer within seconds,
people at a terminal within minutes, and other people within days.
"""
_CLAIM_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0, 300.0)


class _Metrics:
    def __init__(self, meter: Meter, store: ConversationStore | None) -> None:
        self._store = store
        self._cached_ages: tuple[float, Sequence[float]] | None = None
        self.active = meter.create_up_down_counter(
            "midturn.turns.active", "{turn}", "Turns running in this process."
        )
        self.resumes = meter.create_counter(
            "midturn.turns.resumed", "{turn}", "Open turns that were resumed."
        )
        self.answers = meter.create_counter(
            "midturn.answers", "{answer}", "Questions and approvals that were closed."
        )
        self.seconds = meter.create_histogram(
            "midturn.answer.duration",
            "s",
            "Time from a question to its answer.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._refusals = meter.create_counter(
            "midturn.answers.refused", "{answer}", "Submitted answers that were rejected."
        )
        self._claims = meter.create_histogram(
            "midturn.claim.duration",
            "s",
            "Time from the last event of a ready turn to its claim.",
            explicit_bucket_boundaries_advisory=_CLAIM_BUCKETS,
        )
        if store is not None:
            meter.create_observable_gauge(
                "midturn.questions.open", [self._observe_count], "{question}", "Open questions."
            )
            meter.create_observable_gauge(
                "midturn.questions.age",
                [self._observe_ages],
                "s",
                "Age of the open questions, by quantile.",
            )

    def close(self) -> None:
        """Stop counting open questions. OpenTelemetry cannot unregister a gauge."""
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
        """Count the question or approval that this event closes, if any."""
        match entry_among(turn, event):
            case ApprovalEntry(event=decision) as entry if not entry.waits:
                asked = entry.put
                attributes = {
                    "midturn.outcome": decision.state,
                    **_answer_attributes(decision.answered_by),
                }
            case ResponseEntry(event=response, request=request):
                asked = request.event if request else None
                attributes = {"midturn.outcome": response.outcome}
                attributes |= (
                    {"midturn.reason": response.reason}
                    if response.outcome == "cancelled"
                    else _answer_attributes(response.answered_by)
                )
            case _:
                return
        self.answers.add(1, attributes)
        if asked is not None:
            self.seconds.record(max(0.0, (event.at - asked.at).total_seconds()), attributes)

    def _observe_count(self, _: CallbackOptions) -> Iterable[Observation]:
        if (ages := self._open_question_ages()) is not None:
            yield Observation(len(ages))

    def _observe_ages(self, _: CallbackOptions) -> Iterable[Observation]:
        ages = self._open_question_ages() or ()
        for quantile in (0.5, 0.9, 1.0) if ages else ():
            yield Observation(
                ages[min(len(ages) - 1, int(len(ages) * quantile))], {"quantile": str(quantile)}
            )

    def _open_question_ages(self) -> Sequence[float] | None:
        """Return the ages of the open questions in seconds, in ascending order. Return None if the
        store is unavailable or no longer measured.
        """
        store, now = self._store, time.monotonic()
        if store is None:
            return None
        if self._cached_ages is None or now - self._cached_ages[0] > _CACHE_SECONDS:
            try:
                self._cached_ages = now, sorted(map(_age, store.pending_sync()))
            except StoreError as error:
                _LOG.debug("cannot count open questions: %s", error)
                return None
        return self._cached_ages[1]


class _MeasuredRun:
    def __init__(self, metrics: _Metrics, journal: Journal) -> None:
        self._metrics = metrics
        self._journal = journal

    def show(self, happening: Happening) -> None:
        if isinstance(happening, Recorded):
            self._metrics.count(self._journal.events, happening.event)

    def end(self, status: str) -> None:
        del status
        self._metrics.active.add(-1)


class _Unmeasured:
    def end(self, finished: Finished | None, error: BaseException | None) -> None:
        """Do nothing: the provider libraries measure requests."""


def _answer_attributes(answered_by: AnsweredBy | None) -> Mapping[str, str]:
    """Return the kind of responder and the interface, but not the person, because the number of
    series would be unbounded.
    """
    if answered_by is None:
        return {}
    return {
        "midturn.answered.by": answered_by.by,
        **({"midturn.answered.via": answered_by.via} if answered_by.via else {}),
    }


def _age(question: OpenQuestion) -> float:
    return _since(datetime.fromisoformat(question.asked_at))


def _since(moment: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - moment).total_seconds())


def _nanoseconds(event: Event) -> int:
    return int(event.at.timestamp() * _NANO)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

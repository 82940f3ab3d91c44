"""OpenTelemetry (extra `otel`): spans of turns, requests to models, tool calls and questions, by the conventions for generative AI.

```python
import midturn.otel

midturn.otel.instrument()
```

The span of a question is as long as the wait for its answer, and says who answered, and not what. A run that goes on with a turn,
and an answer that comes while no process runs it, are linked to the run that left it open, where that was in this process. Nothing that
people or models wrote is in a span, unless `content=True`.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

try:
    from opentelemetry import context, trace
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer, TracerProvider
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("Spans need the extra `otel`: pip install 'midturn[otel]'.", name=error.name) from error

from midturn.journal import Journal
from midturn.ports import OBSERVERS, Happening, Recorded, RequestObservation, RunObservation, ToolBegan, ToolEnded
from midturn.record.events import Event, InquiryAnswered, InquiryCancelled, InquiryRequest, InquiryResponse
from midturn.record.exchange import Finished, ModelRequest, ToolCall

_NANO = 1_000_000_000
_MOST_LEFT = 1_000  # open turns whose last run is remembered


def instrument(tracer_provider: TracerProvider | None = None, *, content: bool = False) -> None:
    """Make spans of everything that midturn does in this process from now on; calling it again replaces what was set.

    Args:
        tracer_provider: Where the spans go; the global one of OpenTelemetry where none is given.
        content: Put questions, answers, arguments and results into the spans, too. Secrets are never in them.
    """
    uninstrument()
    OBSERVERS.append(_Spans(trace.get_tracer("midturn", tracer_provider=tracer_provider), content=content))


def uninstrument() -> None:
    """Make no more spans."""
    OBSERVERS[:] = [observer for observer in OBSERVERS if not isinstance(observer, _Spans)]


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

    def answered(self, conversation: str, turn: Sequence[Event], batch: Sequence[Event]) -> None:
        for event in batch:
            self.question(conversation, turn, event, self.links(conversation))

    def question(self, conversation: str, turn: Sequence[Event], event: Event, links: Sequence[Link] = ()) -> None:
        """Make the span of a question that has its response: it began when the question was asked."""
        if not isinstance(event, InquiryResponse):
            return
        asked = next((found for found in reversed(turn) if isinstance(found, InquiryRequest) and found.id == event.id), None)
        if asked is None:
            return
        attributes: dict[str, str] = {
            "gen_ai.conversation.id": conversation,
            "midturn.question.id": asked.question_id or "",
            "midturn.question.asked_by": asked.source.header,
            "midturn.question.outcome": event.outcome,
        }
        if isinstance(event, InquiryCancelled):
            attributes["midturn.question.reason"] = event.reason
        elif event.answered_by:
            who = {"by": event.answered_by.by, "user": event.answered_by.user, "via": event.answered_by.via, "name": event.answered_by.name}
            attributes |= {f"midturn.answered.{name}": value for name, value in who.items() if value}
        if self.content:
            attributes["midturn.question.text"] = asked.question.text
            if isinstance(event, InquiryAnswered):
                attributes["midturn.answer"] = _text(event.answer)
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


def _nanoseconds(event: Event) -> int:
    return int(event.at.timestamp() * _NANO)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

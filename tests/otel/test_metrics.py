"""OpenTelemetry metrics, read from its in-memory reader and in Prometheus format."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import midturn as mt
from midturn import otel
from midturn.errors import StoreError
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from support.serving import free_port

WORDS = "What nobody but the person should read"
PERSON = {"midturn.outcome": "answered", "midturn.answered.by": "user"}


@mt.tool
async def ship(ctx: mt.ToolContext) -> str:
    """Ship it."""
    return str(await ctx.ask(mt.Question.boolean("sure", WORDS)))


@mt.tool(run="ask")
async def publish() -> str:
    """Publish it."""
    return "published"


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    """The metrics. The instrumentation is removed after the test."""
    yield InMemoryMetricReader()
    otel.uninstrument()


def agent(store: ConversationStore, tool: str = "ship") -> mt.Agent:
    return mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": tool}]}, {"text": "Done."}] * 5),
        tools=[ship, publish],
        store=store,
        detached="defer",
    )


def measured(reader: InMemoryMetricReader) -> Mapping[str, list[tuple[dict[str, Any], Any]]]:
    """Return the measured values by name: attributes with the value, or with the count of a
    histogram.
    """
    data = reader.get_metrics_data()
    found = (
        [
            metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]
        if data
        else []
    )
    return {
        one.name: [(dict(point.attributes or {}), _value(point)) for point in one.data.data_points]
        for one in found
    }


def _value(point: Any) -> Any:
    return point.count if hasattr(point, "count") else point.value


def test_answers_are_counted_by_outcome_interface_and_responder(
    reader: InMemoryMetricReader,
) -> None:
    store = mt.MemoryStore()
    otel.measure(MeterProvider([reader]))
    agent(store).run_sync("Ship it.", prompter=mt.ScriptedPrompter({"ship.sure": True}))
    for via in ("web", "web", "inbox"):
        asked = agent(store).run_sync("Ship it.")
        store.answer_sync(asked.pending[0].id, True, via=via, user="eve")
        agent(store).resume_sync(asked.conversation)
    withdrawn = agent(store).run_sync("Ship it.")
    store.answer_sync(withdrawn.pending[0].id, cancel=True, via="web")

    found = measured(reader)

    for name in ("midturn.answers", "midturn.answer.duration"):
        assert ({**PERSON, "midturn.answered.via": "web"}, 2) in found[name]
        assert ({**PERSON, "midturn.answered.via": "inbox"}, 1) in found[name]
        assert sum(value for _, value in found[name]) == 5
    assert any(
        attributes["midturn.outcome"] == "cancelled" for attributes, _ in found["midturn.answers"]
    )
    assert found["midturn.turns.active"] == [({}, 0)]
    assert found["midturn.turns.resumed"] == [({}, 3)]
    assert "eve" not in str(found)
    assert WORDS not in str(found)


def test_decisions_count_as_answers(reader: InMemoryMetricReader) -> None:
    store = mt.MemoryStore()
    otel.measure(MeterProvider([reader]))
    asked = agent(store, "publish").run_sync("Publish it.")
    store.answer_sync(asked.pending[0].id, approve=False, via="web")

    answers = measured(reader)["midturn.answers"]

    assert answers == [
        (
            {
                "midturn.outcome": "skipped",
                "midturn.answered.by": "user",
                "midturn.answered.via": "web",
            },
            1,
        )
    ]


def test_refused_answers_are_counted_by_reason(reader: InMemoryMetricReader) -> None:
    store = mt.MemoryStore()
    otel.measure(MeterProvider([reader]))
    question = agent(store).run_sync("Ship it.").pending[0]
    for id, value in (
        ("nonsense", True),
        ("1-nothing", True),
        (question.id, "perhaps"),
        (question.id, True),
        (question.id, True),
    ):
        try:
            store.answer_sync(id, value)
        except mt.MidturnError:
            continue

    refused = measured(reader)["midturn.answers.refused"]

    expected = {"NoSuchQuestion": 2, "AnswerError": 1, "AlreadyAnswered": 1}
    assert {attributes["error.type"]: value for attributes, value in refused} == expected


def test_open_questions_and_age_are_read_from_the_store(
    reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otel, "_CACHE_SECONDS", 0.0)
    store = mt.MemoryStore()
    otel.measure(MeterProvider([reader]), store=store)
    assert measured(reader)["midturn.questions.open"] == [({}, 0)]
    questions = [agent(store).run_sync("Ship it.").pending[0] for _ in range(3)]

    found = measured(reader)
    assert found["midturn.questions.open"] == [({}, 3)]
    ages = {attributes["quantile"]: value for attributes, value in found["midturn.questions.age"]}
    assert list(ages) == ["0.5", "0.9", "1.0"]
    assert 0 <= ages["0.5"] <= ages["1.0"] < 60
    store.answer_sync(questions[0].id, True)
    assert measured(reader)["midturn.questions.open"] == [({}, 2)]


def test_unreachable_store_exports_no_value(
    reader: InMemoryMetricReader, caplog: pytest.LogCaptureFixture
) -> None:
    store = mt.MemoryStore()

    def away() -> list[mt.OpenQuestion]:
        raise StoreError("The database is away.")

    store.pending_sync = away  # type: ignore[method-assign,assignment]
    otel.measure(MeterProvider([reader]), store=store)
    assert "midturn.questions.open" not in measured(reader)
    assert not caplog.records


def test_worker_exports_the_age_of_due_turns(reader: InMemoryMetricReader) -> None:
    store = mt.MemoryStore()
    otel.measure(MeterProvider([reader]))

    async def scene() -> None:
        working = asyncio.create_task(agent(store).work())
        asked = await agent(store).run("Ship it.")
        await store.answer(asked.pending[0].id, True)
        while (await store.read(asked.conversation)).turns[-1].open:  # noqa: ASYNC110  a worker closes it
            await asyncio.sleep(0.01)
        working.cancel()

    asyncio.run(scene())

    assert measured(reader)["midturn.claim.duration"] == [({}, 1)]


def test_instrumenting_twice_counts_once(reader: InMemoryMetricReader) -> None:
    store = mt.MemoryStore()
    provider = MeterProvider([reader])
    otel.measure(provider, store=store)
    otel.measure(provider)
    otel.instrument()
    agent(store).run_sync("Ship it.", prompter=mt.ScriptedPrompter({"ship.sure": True}))
    found = measured(reader)
    assert sum(value for _, value in found["midturn.answers"]) == 1
    assert "midturn.questions.open" not in found

    otel.uninstrument()
    agent(store).run_sync("Ship it.", prompter=mt.ScriptedPrompter({"ship.sure": True}))
    assert sum(value for _, value in measured(reader)["midturn.answers"]) == 1


def test_prometheus_can_read_the_metrics() -> None:
    provider = MeterProvider([PrometheusMetricReader()])
    store = mt.MemoryStore()
    otel.measure(provider, store=store)
    try:
        waiting, asked = (agent(store).run_sync("Ship it.") for _ in range(2))
        store.answer_sync(asked.pending[0].id, True, via="web")
        families = {
            family.name: family
            for family in text_string_to_metric_families(generate_latest(REGISTRY).decode())
        }
    finally:
        otel.uninstrument()
        provider.shutdown()

    assert waiting.status == "suspended"
    assert [sample.value for sample in families["midturn_questions_open"].samples] == [1.0]
    (answers,) = families["midturn_answers"].samples
    assert (answers.name, answers.value, answers.labels["midturn_answered_via"]) == (
        "midturn_answers_total",
        1.0,
        "web",
    )
    assert families["midturn_answer_duration_seconds"].type == "histogram"
    assert {
        sample.labels["quantile"] for sample in families["midturn_questions_age_seconds"].samples
    } == {"0.5", "0.9", "1.0"}
    assert {"midturn_turns_active"} <= families.keys()


SHOP = """
import sys
from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server
import midturn as mt

metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
start_http_server(int(sys.argv[-1]), addr="127.0.0.1")
agent = mt.Agent(mt.ScriptedModel([{"text": "Done."}]), store=mt.open_store("conversations"))
"""


def test_worker_exports_metrics_if_opentelemetry_is_configured(tmp_path: Path) -> None:
    agent(FileStore(tmp_path / "conversations")).run_sync("Ship it.")
    (tmp_path / "shop.py").write_text(SHOP.replace("sys.argv[-1]", repr(port := free_port())))
    command = [sys.executable, "-m", "midturn", "worker", "shop:agent"]
    homes = {
        name: str(tmp_path)
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }
    environment = {"PATH": os.environ["PATH"], "OTEL_SERVICE_NAME": "shop", **homes}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as worker:
        try:
            assert worker.stderr
            assert "midturn: worker started (up to" in worker.stderr.readline()
            text = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=120).text
        finally:
            worker.terminate()
            worker.communicate(timeout=120)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [sample.value for sample in families["midturn_questions_open"].samples] == [1.0]

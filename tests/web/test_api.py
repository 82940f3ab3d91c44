"""The API follows the same rules as the pages. Tested by hand and by a client generated from
its OpenAPI document.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, NoReturn, cast

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from starlette.testclient import TestClient

import midturn as mt
from midturn.question.question import Question
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.watching import Watch
from midturn.testing import Clock
from midturn.web import inbox
from midturn.web.openapi import document
from support.pages import ada, agent_with, asking, asking_form, browsing, wait_for
from support.serving import serving

_EVERY_CHECK = cast("list[HealthCheck]", [*HealthCheck])
CONFIRM = Question.boolean("q", "Sure?", context="**All** of it.")


def answer(client: TestClient, question: mt.OpenQuestion, **body: Any) -> Any:
    """Send an answer as a program does."""
    return client.post(f"/api/questions/{question.id}/answer", json=body)


def test_open_questions_are_listed_in_the_standard_format(store: MemoryStore) -> None:
    first, second = (wait_for(agent_with(store, asking(CONFIRM))) for _ in range(2))
    with browsing(inbox(store, user=ada)) as client:
        assert client.get("/api/questions").json() == [first.to_json(), second.to_json()]
        assert client.get(f"/api/questions?conversation={second.conversation}").json() == [
            second.to_json()
        ]
        assert client.get(f"/api/questions/{first.id}").json() == first.to_json()


def test_a_page_of_open_questions_begins_after_the_last_of_the_page_before(
    store: MemoryStore,
) -> None:
    asked = [wait_for(agent_with(store, asking(CONFIRM))) for _ in range(5)]
    with browsing(inbox(store, user=ada)) as client:

        def page(query: str) -> list[int]:
            ids = [question.id for question in asked]
            return [ids.index(each["id"]) for each in client.get(f"/api/questions?{query}").json()]

        assert (
            page("limit=2"),
            page(f"limit=2&after={asked[1].id}"),
            page(f"after={asked[3].id}"),
        ) == ([0, 1], [2, 3], [4])
        assert answer(client, asked[1], value=True).status_code == 200
        assert page(f"limit=2&after={asked[1].id}") == [2, 3]
        assert page(f"limit=2&conversation={asked[3].conversation}") == [3]
        for wrong in ("0", "-1", "1001", "many", ""):
            assert client.get(f"/api/questions?limit={wrong}").status_code == 400


def test_recorded_answer_gets_a_receipt_even_if_the_store_fails_then(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = wait_for(agent_with(store, asking(CONFIRM)))
    recording = store.answer

    async def away(*_: object) -> NoReturn:
        raise mt.StoreError("The database does not answer.")

    async def last(*given: Any, **how: Any) -> mt.Receipt:
        receipt = await recording(*given, **how)
        monkeypatch.setattr(Watch, "look", away)
        return receipt

    with browsing(inbox(store, user=ada)) as client:
        monkeypatch.setattr(store, "answer", last)
        sent = answer(client, waiting, value=True)

    assert (sent.status_code, sent.json()["id"]) == (200, waiting.id)


def test_answer_gets_a_receipt_and_a_second_one_is_refused(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking(CONFIRM)))
    with browsing(inbox(store, user=ada)) as client:
        sent = answer(client, waiting, value=True, reason="Because.")
        assert (sent.status_code, sent.json()) == (
            200,
            {"conversation": waiting.conversation, "id": waiting.id, "held": False},
        )
        again = answer(client, waiting, value=False)
        assert (again.status_code, again.json()["error"]) == (409, "already_answered")
        assert again.json()["answered_by"] == {"by": "user", "via": "api", "user": "ada"}
        assert (
            again.json()["message"]
            == f"The question {waiting.id} was answered before, by ada (api). That answer stands."
        )
        looked_at = client.get(f"/api/questions/{waiting.id}")
        assert (looked_at.status_code, looked_at.json()["message"]) == (
            409,
            again.json()["message"],
        )


def test_question_closed_without_an_answer_is_410(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking(CONFIRM)))
    with browsing(inbox(store, user=ada)) as client:
        client.get("/api/questions")
        assert answer(client, waiting, reply="Later.").status_code == 200
        assert answer(client, waiting, value=True).status_code == 410


def test_an_answer_after_the_deadline_is_refused_with_410_and_names_it(
    store: MemoryStore, clock: Clock
) -> None:
    waiting = wait_for(
        agent_with(store, asking(Question.boolean("q", "Sure?", deadline=timedelta(hours=1))))
    )
    with browsing(inbox(store, user=ada)) as client:
        assert "Answer by <time" in client.get(f"/q/{waiting.id}").text
        clock.pass_(hours=2)
        late = answer(client, waiting, value=True)
        assert (late.status_code, late.json()["error"], late.json()["deadline"]) == (
            410,
            "deadline_passed",
            waiting.deadline,
        )
        assert client.get("/api/questions").json() == []
        assert client.get(f"/q/{waiting.id}").status_code == 200


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"value": "yes"}, ["/value"]),
        ({"value": None}, ["/value"]),
        ({}, [""]),
        ({"reason": "x"}, [""]),
        ({"value": True, "reply": "x"}, [""]),
        ({"value": True, "resaon": "x"}, ["/resaon"]),
        ({"approve": "yes"}, ["/approve"]),
        ({"cancel": False}, ["/cancel"]),
        ({"reply": 7}, ["/reply"]),
        ({"arguments": [1]}, ["/arguments"]),
        ({"value": True, "digest": "12345678", "about": "12345678"}, ["/about"]),
        ({"value": True, "reason": ["x"]}, ["/reason"]),
    ],
)
def test_invalid_answer_is_refused_with_a_json_pointer(
    store: MemoryStore, body: dict[str, Any], pointers: list[str]
) -> None:
    waiting = wait_for(agent_with(store, asking(CONFIRM)))
    with browsing(inbox(store, user=ada)) as client:
        sent = answer(client, waiting, **body)
        assert client.get(f"/api/questions/{waiting.id}").status_code == 200
    assert (sent.status_code, [problem["pointer"] for problem in sent.json()["problems"]]) == (
        422,
        pointers,
    ), sent.text


def test_form_takes_an_object_and_reports_invalid_fields(store: MemoryStore) -> None:
    form = mt.Form(
        [
            Question.boolean("apply", "Really?"),
            Question.schema("count", "How many?", {"type": "integer"}),
        ]
    )
    waiting = wait_for(agent_with(store, asking_form(form)))
    with browsing(inbox(store, user=ada)) as client:
        sent = answer(client, waiting, value={"apply": True, "count": "three"})
        assert [problem["pointer"] for problem in sent.json()["problems"]] == ["/value/count"]
        assert answer(client, waiting, value={"apply": True, "count": 3}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"value": NaN}',
        b'{"value": 1, "value": 2}',
        b"\xff",
        b"[" * 100_000,
        b'{"value": 1e999}',
    ],
)
def test_a_body_that_is_no_json_object_is_refused(store: MemoryStore, body: bytes) -> None:
    waiting = wait_for(agent_with(store, asking(CONFIRM)))
    with browsing(inbox(store, user=ada)) as client:
        sent = client.post(
            f"/api/questions/{waiting.id}/answer",
            content=body,
            headers={"Content-Type": "application/json"},
        )
    assert (sent.status_code, sent.json()["error"]) == (400, "not_readable")


def test_secret_is_refused_with_the_page_to_use(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking(Question.secret("q", "Passphrase?"))))
    with browsing(inbox(store, user=ada)) as client:
        sent = answer(client, waiting, value="hunter2")
    assert (sent.status_code, sent.json()["error"]) == (409, "secret_elsewhere")
    assert "hunter2" not in sent.text


def test_api_responses_match_the_document(store: MemoryStore) -> None:
    form = mt.Form(
        [Question.boolean("apply", "Really?"), Question.text("note", "Note?", optional=True)]
    )
    questions = [
        wait_for(agent_with(store, asking(CONFIRM))),
        wait_for(agent_with(store, asking_form(form))),
    ]
    described = document()
    with browsing(inbox(store, user=ada)) as client:
        assert client.get("/api/openapi.json").json()["paths"] == described["paths"]
        _check(described, "QuestionShape", *client.get("/api/questions").json())
        _check(
            described,
            "ErrorShape",
            answer(client, questions[0], value=7).json(),
            answer(client, questions[0]).json(),
        )
        _check(described, "ReceiptShape", answer(client, questions[0], value=True).json())
        _check(
            described,
            "ErrorShape",
            answer(client, questions[0], value=True).json(),
            client.get("/api/questions/x").json(),
        )
        _check(described, "SummaryShape", *client.get("/api/conversations").json())
        _check(
            described,
            "ConversationShape",
            client.get(f"/api/conversations/{questions[0].conversation}").json(),
        )


def _check(described: dict[str, Any], name: str, *values: object) -> None:
    assert values
    for value in values:
        jsonschema_rs.validate(
            {"$ref": f"#/components/schemas/{name}", "components": described["components"]}, value
        )


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_generated_requests_get_documented_responses(store: MemoryStore) -> None:
    """Each operation is called with valid and invalid input. No response may be undocumented
    or a crash.
    """
    import schemathesis  # slow to import, and needed only here

    for _ in range(3):
        asyncio.run(agent_with(store, asking(CONFIRM)).run("Ship it."))
    schema: Any = schemathesis.openapi.from_dict(document()).exclude(
        path="/api/events"
    )  # that stream never ends
    tried = 0
    with serving(inbox(store, user=ada)) as address:
        schema.config.base_url = address
        for result in schema.get_all_operations():
            strategies: list[Any] = [
                result.ok().as_strategy(generation_mode=mode)
                for mode in schemathesis.GenerationMode
            ]

            @settings(
                max_examples=30,
                deadline=None,
                database=None,
                suppress_health_check=_EVERY_CHECK,
                phases=[Phase.generate],
            )
            @given(case=st.one_of(*strategies))
            def call(case: Any) -> None:
                nonlocal tried
                tried += 1
                case.call_and_validate(base_url=address)

            call()
    assert tried > 100


def test_idempotency_key_records_an_answer_once(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking(CONFIRM)))
    path, key = f"/api/questions/{waiting.id}/answer", {"Idempotency-Key": "one"}
    with browsing(inbox(store, user=ada)) as client:
        assert (
            client.post(path, json={"value": 3}, headers=key).status_code == 422
        )  # nothing was recorded: the key is unused
        first, again = (client.post(path, json={"value": True}, headers=key) for _ in range(2))
        assert (first.status_code, again.status_code, again.json()) == (200, 200, first.json())
        other = client.post(path, json={"value": False}, headers=key)
        assert (other.status_code, other.json()["error"]) == (422, "key_reused")
        assert client.post(path, json={"value": True}).status_code == 409
        assert (
            client.post(
                path, json={"value": True}, headers={"Idempotency-Key": "x" * 256}
            ).status_code
            == 400
        )


def test_errors_have_the_standard_format(store: MemoryStore) -> None:
    with browsing(inbox(store, user=ada)) as client:
        refused = client.get("/api/questions/1-nothing")
    assert refused.headers["content-type"] == "application/problem+json"
    told = refused.json()
    assert (told["status"], told["title"], told["error"], told["detail"]) == (
        404,
        "Not found",
        "not_found",
        told["message"],
    )

"""Whose question it is, on the page and over the API: who may answer, votes, and passing on."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

import midturn as mt
from midturn.record.events import InquiryAnswered, Vote
from midturn.store.store import ConversationStore
from midturn.web import inbox
from support.pages import OWN, agent_with, asking

OPS = mt.People(ask=["ops"], only=True, approvals=2, members={"ops": ["ana", "bo"]}, logins={"ana": ["a.smith"]})


@pytest.fixture
def asked(store: ConversationStore) -> tuple[ConversationStore, str]:
    result = asyncio.run(agent_with(store, asking(mt.Question.boolean("go", "Deploy?", people=OPS))).run("Ship it."))
    return store, result.pending[0].id


def page_of(store: ConversationStore, user: str) -> TestClient:
    """Return the page as a program shows it to a visitor."""
    client = TestClient(inbox(store, user=lambda _: user), base_url="http://testserver", headers=OWN)
    client.headers["Accept"] = "text/html"
    return client


def answered(store: ConversationStore, id: str) -> list[Any]:
    events = store.read_sync(id.partition("-")[0]).events
    return [event for event in events if isinstance(event, Vote | InquiryAnswered)]


def test_votes_on_the_page(asked: tuple[ConversationStore, str]) -> None:
    store, id = asked
    with page_of(store, "a.smith") as ana:
        assert "It is for ops only · 0 of 2." in ana.get(f"/q/{id}").text
        sent = ana.post(f"/q/{id}", data={"answer": "yes"})
        assert "It is for ops only · 1 of 2. Yes said: ana." in sent.text
        again = ana.post(f"/q/{id}", data={"answer": "yes"})
        assert again.status_code == 403
        assert "ana has said yes already: 1 of 2" in again.text
        ana.post(f"/q/{id}", data={"act": "take-back"})
        assert "0 of 2" in ana.get(f"/q/{id}").text
        ana.post(f"/q/{id}", data={"answer": "yes"})
    with page_of(store, "carl") as carl:
        refused = carl.post(f"/q/{id}", data={"answer": "yes"})
        assert refused.status_code == 403
        assert "carl may not answer this: only ana and bo may." in refused.text
    with page_of(store, "bo") as bo:
        bo.post(f"/q/{id}", data={"answer": "yes"})
    assert isinstance(answered(store, id)[-1], InquiryAnswered)


def test_votes_and_passing_on_over_the_api(asked: tuple[ConversationStore, str]) -> None:
    store, id = asked
    with page_of(store, "ana") as ana:
        assert ana.get(f"/api/questions/{id}").json()["people"]["may_answer"] == ["ana", "bo"]
        passed = ana.post(f"/api/questions/{id}/answer", json={"pass_to": ["bo"]})
        assert passed.status_code == 200
        assert ana.get(f"/api/questions/{id}").json()["people"]["ask"] == ["bo"]
        assert ana.post(f"/api/questions/{id}/answer", json={"pass_to": ["carl"]}).status_code == 403
        assert ana.post(f"/api/questions/{id}/answer", json={"pass_to": []}).status_code == 422
        assert ana.post(f"/api/questions/{id}/answer", json={"value": True}).json()["votes"] == "1 of 2"
        assert ana.post(f"/api/questions/{id}/answer", json={"take_back": True}).json()["votes"] == "0 of 2"


def two_of_ops(*_: object) -> mt.People:
    return mt.People(ask=["ops"], approvals=2, members={"ops": ["ana", "bo", "carl"]})


@mt.tool(run=two_of_ops)
def ship(env: str) -> str:
    """Ship it."""
    return f"shipped to {env}"


def test_a_yes_on_a_page_is_to_the_arguments_that_it_showed(store: ConversationStore) -> None:
    """Ana's page is older than bo's edit; shown again, it has what she agrees to."""
    agent = agent_with(store, ship, arguments={"env": "production"})
    id = asyncio.run(agent.run("Ship it.")).pending[0].id
    with page_of(store, "ana") as ana, page_of(store, "bo") as bo:
        (shown,) = re.findall('name="about" value="([0-9a-f]{64})"', ana.get(f"/q/{id}").text)
        bo.post(f"/q/{id}", data={"act": "edit", "edited": '{"env": "staging"}'})
        stale = ana.post(f"/q/{id}", data={"act": "approve", "about": shown})
        assert "The arguments were changed since they were shown: look at the call again." in stale.text
        (now,) = re.findall('name="about" value="([0-9a-f]{64})"', stale.text)
        assert now != shown
        ana.post(f"/q/{id}", data={"act": "approve", "about": now})
    assert asyncio.run(agent.resume(id.partition("-")[0])).status == "completed"

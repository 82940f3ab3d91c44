"""Eligible people on the page and over the API: who may answer, votes, reassignment."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

import midturn as mt
import midturn.testing
from midturn.events.types import Approval, InquiryAnswered, Vote
from midturn.stores.store import ConversationStore
from midturn.web import inbox
from support.pages import OWN, agent_with, asking

OPS = mt.People(
    ask=["ops"], only=True, approvals=2, members={"ops": ["ana", "bo"]}, logins={"ana": ["a.smith"]}
)


@pytest.fixture
def asked(store: ConversationStore) -> tuple[ConversationStore, str]:
    result = asyncio.run(
        agent_with(store, asking(mt.Question.boolean("go", "Deploy?", people=OPS))).run("Ship it.")
    )
    return store, result.pending[0].id


def page_of(store: ConversationStore, user: str) -> TestClient:
    """Return the page as a program shows it to a visitor."""
    client = TestClient(
        inbox(store, user=lambda _: user), base_url="http://testserver", headers={**OWN}
    )
    client.headers["Accept"] = "text/html"
    return client


def answered(store: ConversationStore, id: str) -> list[Any]:
    events = store.read_sync(id.partition("-")[0]).events
    return [event for event in events if isinstance(event, Vote | InquiryAnswered)]


def test_votes_on_the_page(asked: tuple[ConversationStore, str]) -> None:
    store, id = asked
    with page_of(store, "a.smith") as ana:
        assert "Needs 2 approvals from ops (0 so far)." in ana.get(f"/q/{id}").text
        sent = ana.post(f"/q/{id}", data={"answer": "yes"})
        assert "Approved by ana. One more approval from ops needed." in sent.text
        again = ana.post(f"/q/{id}", data={"answer": "yes"})
        assert again.status_code == 403
        assert "ana has said yes already: 1 of 2" in again.text
        ana.post(f"/q/{id}", data={"act": "take-back"})
        assert "(0 so far)" in ana.get(f"/q/{id}").text
        ana.post(f"/q/{id}", data={"answer": "yes"})
    with page_of(store, "carl") as carl:
        refused = carl.post(f"/q/{id}", data={"answer": "yes"})
        assert refused.status_code == 403
        assert "carl may not answer this: only ana and bo may." in refused.text
    with page_of(store, "bo") as bo:
        bo.post(f"/q/{id}", data={"answer": "yes"})
    assert isinstance(answered(store, id)[-1], InquiryAnswered)


@pytest.mark.parametrize("user", ["", " ", "\u200b", "ana\n", "a\x00na"])
def test_visitor_with_an_invalid_name_is_a_stranger(
    asked: tuple[ConversationStore, str], user: str
) -> None:
    store, id = asked
    with page_of(store, user) as stranger:
        assert stranger.get(f"/q/{id}").status_code == 401
        assert stranger.get("/api/questions").status_code == 401
        assert stranger.post(f"/api/questions/{id}/answer", json={"value": True}).status_code == 401


@pytest.mark.parametrize("again", ["A.Smith", "ANA", "ana\u00a0", "a\u200bna"])
def test_one_person_is_one_voter_on_the_page_however_the_name_is_spelled(
    asked: tuple[ConversationStore, str], again: str
) -> None:
    store, id = asked
    with page_of(store, "ana") as ana:
        ana.post(f"/q/{id}", data={"answer": "yes"})
    with page_of(store, again) as other:
        refused = other.post(f"/q/{id}", data={"answer": "yes"})
        assert refused.status_code == 403
        assert "ana has said yes already: 1 of 2" in refused.text


def test_page_and_inbox_show_failed_notices(asked: tuple[ConversationStore, str]) -> None:
    store, id = asked
    midturn.testing.tell_people_sync(store)
    with page_of(store, "ana") as ana:
        assert "ops could not be notified: no address" in ana.get(f"/q/{id}").text
        assert "ops could not be notified: no address" in ana.get("/").text
        assert (
            ana.get(f"/api/questions/{id}").json()["people"]["not_told"]
            == "ops could not be notified: no address"
        )


def test_ineligible_user_cannot_end_the_turn(store: ConversationStore) -> None:
    anyone, ops = (
        asking(mt.Question.boolean("hi", "Say hello?"), "hello"),
        asking(mt.Question.boolean("go", "Deploy?", people=OPS)),
    )
    result = asyncio.run(agent_with(store, anyone, ops).run("Ship it."))
    hello = next(question.id for question in result.pending if question.tool == "hello")
    with page_of(store, "mallory") as mallory:
        on_page = mallory.post(f"/q/{hello}", data={"act": "end"})
        over_api = mallory.post(f"/api/questions/{hello}/answer", json={"cancel": True})
        assert (on_page.status_code, over_api.status_code) == (403, 403)
        for said in (on_page.text, over_api.json()["message"]):
            assert "mallory may not answer this: only ana and bo may." in said
        assert len(store.pending_sync()) == 2
    with page_of(store, "ana") as ana:
        assert ana.post(f"/api/questions/{hello}/answer", json={"cancel": True}).status_code == 200
    assert store.pending_sync() == []


def test_votes_and_reassignment_over_the_api(asked: tuple[ConversationStore, str]) -> None:
    store, id = asked
    with page_of(store, "ana") as ana:
        assert ana.get(f"/api/questions/{id}").json()["people"]["may_answer"] == ["ana", "bo"]
        passed = ana.post(f"/api/questions/{id}/answer", json={"pass_to": ["bo"]})
        assert passed.status_code == 200
        assert ana.get(f"/api/questions/{id}").json()["people"]["ask"] == ["bo"]
        assert (
            ana.post(f"/api/questions/{id}/answer", json={"pass_to": ["carl"]}).status_code == 403
        )
        assert ana.post(f"/api/questions/{id}/answer", json={"pass_to": []}).status_code == 422
        assert (
            ana.post(f"/api/questions/{id}/answer", json={"value": True}).json()["votes"]
            == "1 of 2"
        )
        assert (
            ana.post(f"/api/questions/{id}/answer", json={"take_back": True}).json()["votes"]
            == "0 of 2"
        )


def two_of_ops(*_: object) -> mt.People:
    return mt.People(ask=["ops"], approvals=2, members={"ops": ["ana", "bo", "carl"]})


@mt.tool(run=two_of_ops)
def ship(env: str) -> str:
    """Ship it."""
    return f"shipped to {env}"


def test_yes_on_a_page_applies_to_the_shown_arguments(store: ConversationStore) -> None:
    """Ana's page is older than bo's edit. Loaded again, it shows the arguments she approves."""
    agent = agent_with(store, ship, arguments={"env": "production"})
    id = asyncio.run(agent.run("Ship it.")).pending[0].id
    with page_of(store, "ana") as ana, page_of(store, "bo") as bo:
        (shown,) = set(re.findall('name="about" value="([0-9a-f]{64})"', ana.get(f"/q/{id}").text))
        bo.post(f"/q/{id}", data={"act": "edit", "edited": '{"env": "staging"}', "about": shown})
        asyncio.run(
            agent.resume(id.partition("-")[0])
        )  # it evaluates the rules for the edited call
        stale = ana.post(f"/q/{id}", data={"act": "approve", "about": shown})
        assert (
            "This question changed after the page was loaded, so your answer was not saved."
            in stale.text
        )
        (now,) = set(re.findall('name="about" value="([0-9a-f]{64})"', stale.text))
        assert now != shown
        ana.post(f"/q/{id}", data={"act": "approve", "about": now})
    assert asyncio.run(agent.resume(id.partition("-")[0])).status == "completed"


# Several similar questions in one request
# --------------------------------------------------------------------------------------------------


@mt.tool(run="ask")
def push(branch: str) -> str:
    """Push it."""
    return f"pushed {branch}"


def several_pushes(store: ConversationStore) -> list[mt.OpenQuestion]:
    for branch in ("one", "two", "three"):
        asyncio.run(agent_with(store, push, arguments={"branch": branch}).run("Push it."))
    asyncio.run(agent_with(store, ship, arguments={"env": "production"}).run("Ship it."))
    return store.pending_sync()


def decided(store: ConversationStore) -> list[tuple[Any, ...]]:
    """Return the decision about each call, with responder and interface."""
    events = [event for id in store.ids_sync() for event in store.read_sync(id).events]
    done = [
        event
        for event in events
        if isinstance(event, Approval) and event.state not in ("waiting", "superseded")
    ]
    return [
        (
            event.state,
            event.reason,
            event.answered_by and (event.answered_by.user, event.answered_by.via),
        )
        for event in done
    ]


def test_similar_questions_are_answered_together_and_recorded_separately(
    store: ConversationStore,
) -> None:
    one, two, three, other = several_pushes(store)
    with page_of(store, "ana") as ana:
        assert "similar questions · Answer together" not in ana.get(f"/q/{other.id}").text
        assert "3 similar questions · Answer together" in ana.get(f"/q/{two.id}").text
        shown = ana.get(f"/q/{two.id}/alike").text
        assert all(f'value="{each.id}"' in shown for each in (one, two, three))
        assert other.id not in shown
        assert all(branch in shown for branch in ("one", "two", "three"))
        sent = ana.post(
            f"/q/{two.id}/alike",
            data={
                "question": [one.id, three.id, other.id],
                "act": "refuse",
                "reason": "Not today.",
            },
        )
        assert sent.text.count("Saved") == 2
    assert decided(store) == [("skipped", "Not today.", ("ana", "web"))] * 2
    assert [each.id for each in store.pending_sync()] == [two.id, other.id]


def test_combined_votes_apply_to_the_shown_content(store: ConversationStore) -> None:
    for env in ("staging", "production"):
        asyncio.run(agent_with(store, ship, arguments={"env": env}).run("Ship it."))
    first, second = store.pending_sync()
    with page_of(store, "ana") as ana, page_of(store, "bo") as bo:
        shown = ana.get(f"/q/{first.id}/alike").text
        about = dict(re.findall('name="about-([^"]+)" value="([0-9a-f]{64})"', shown))
        assert set(about) == {first.id, second.id}
        bo.post(f"/q/{second.id}", data={"act": "edit", "edited": '{"env": "nowhere"}'})
        asyncio.run(
            agent_with(store, ship, arguments={"env": "production"}).resume(second.conversation)
        )  # as above
        fields = {
            "question": [first.id, second.id],
            "act": "approve",
            **{f"about-{id}": digest for id, digest in about.items()},
        }
        sent = ana.post(f"/q/{first.id}/alike", data=fields).text
        assert "1 of 2 approved" in sent
        assert "Not saved: This question changed after the page was loaded" in sent
        assert (
            "Not saved: ana has said yes already"
            in ana.post(f"/q/{first.id}/alike", data=fields | {"question": first.id}).text
        )
    assert [each.whose.voters for each in store.pending_sync() if each.whose] == [("ana",), ("bo",)]
    assert decided(store) == []


def test_api_yes_requires_the_digest(store: ConversationStore) -> None:
    agent = agent_with(store, ship, arguments={"env": "production"})
    id = asyncio.run(agent.run("Ship it.")).pending[0].id
    path = f"/api/questions/{id}"
    with page_of(store, "ana") as ana, page_of(store, "bo") as bo:
        shown = ana.get(path).json()
        assert shown["digest"] == shown["about"]
        blind = ana.post(f"{path}/answer", json={"approve": True})
        assert (blind.status_code, blind.json()["error"]) == (409, "digest_mismatch")
        assert (blind.json()["digest"], blind.json()["question"]["arguments"]) == (
            shown["digest"],
            {"env": "production"},
        )
        assert (
            bo.post(
                f"{path}/answer", json={"arguments": {"env": "staging"}, "digest": shown["digest"]}
            ).status_code
            == 200
        )
        asyncio.run(
            agent.resume(id.partition("-")[0])
        )  # it evaluates the rules for the edited call
        for key in ("digest", "about"):
            stale = ana.post(f"{path}/answer", json={"approve": True, key: shown["digest"]})
            assert (stale.status_code, stale.json()["error"]) == (409, "digest_mismatch")
            assert stale.json()["question"]["arguments"] == {"env": "staging"}
        now = stale.json()["digest"]
        assert now != shown["digest"]
        both = ana.post(
            f"{path}/answer", json={"approve": True, "digest": now, "about": shown["digest"]}
        )
        assert (both.status_code, both.json()["problems"][0]["pointer"]) == (422, "/about")
        assert (
            ana.post(f"{path}/answer", json={"approve": True, "digest": now[:7]}).status_code == 409
        )
        assert ana.get(path).json()["people"]["voted"] == ["bo"]
        assert (
            ana.post(f"{path}/answer", json={"approve": True, "digest": now[:8]}).status_code == 200
        )
    assert asyncio.run(agent.resume(id.partition("-")[0])).status == "completed"


def test_answer_invalid_for_one_of_several_questions_is_refused_for_all(
    store: ConversationStore,
) -> None:
    for _ in range(2):
        asyncio.run(
            agent_with(store, asking(mt.Question.number("n", "How many?", type=int, max=5))).run(
                "Ask."
            )
        )
    ids = [each.id for each in store.pending_sync()]
    with page_of(store, "ana") as ana:
        for fields in (
            {"question": ids, "act": "answer", "answer": "9"},
            {"act": "answer", "answer": "3"},
            {"question": ids, "act": "end"},
        ):
            assert ana.post(f"/q/{ids[0]}/alike", data=fields).status_code == 422
        assert [each.id for each in store.pending_sync()] == ids
        assert (
            ana.post(
                f"/q/{ids[0]}/alike", data={"question": ids, "act": "answer", "answer": "3"}
            ).text.count("Saved")
            == 2
        )
        assert "ana (web) answered" in ana.get(f"/q/{ids[0]}/alike").text
    assert store.pending_sync() == []
    assert [event.answer for id in ids for event in answered(store, id)] == [3, 3]

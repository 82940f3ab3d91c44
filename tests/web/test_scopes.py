"""Permissions for later calls, given on the page and over the API; and answers that are reused
in the conversation.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.testclient import TestClient

import midturn as mt
from midturn.events.types import Approval, InquiryAnswered, Standing
from midturn.question.question import Question
from midturn.question.reply import Scope
from midturn.stores.store import ConversationStore
from midturn.web import inbox
from support.pages import OWN, asking

TWO = mt.People(ask=["ops"], approvals=2, members={"ops": ["ana", "bo", "carl"]})


@mt.tool(run="ask")
def push(branch: str) -> str:
    """Push it."""
    return f"pushed {branch}"


def two_of_ops(_arguments: object, _ctx: object) -> mt.People:
    return TWO


@mt.tool(run=two_of_ops)
def ship(env: str) -> str:
    """Ship it."""
    return f"shipped to {env}"


def agent(store: ConversationStore, *calls: dict[str, Any], tools: Any = (push, ship)) -> mt.Agent:
    """Return an agent whose model makes these calls, one per reply."""
    replies = [reply for call in calls for reply in ({"calls": [call]}, {"text": "Done."})]
    return mt.Agent(mt.ScriptedModel(replies), tools=list(tools), store=store)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def page_of(store: ConversationStore, user: str = "ana") -> TestClient:
    client = TestClient(
        inbox(store, user=lambda _: user), base_url="http://testserver", headers={**OWN}
    )
    client.headers["Accept"] = "text/html"
    return client


def approvals(store: ConversationStore, id: str) -> list[tuple[str, str]]:
    events = store.read_sync(id).events
    return [
        (each.state, each.answered_by.by)
        for each in events
        if isinstance(each, Approval) and each.answered_by
    ]


def test_conversation_permission_covers_only_equal_calls(store: ConversationStore) -> None:
    it = agent(
        store, call("push", branch="one"), call("push", branch="one"), call("push", branch="two")
    )
    first = asyncio.run(it.run("Push it."))
    question = first.pending[0]
    with page_of(store) as page:
        shown = page.get(f"/q/{question.id}").text
        assert 'value="conversation"' in shown
        assert "Allows push with branch = &#34;one&#34;, and nothing else." in shown
        assert (
            "Does not allow push {&#34;branch&#34;: &#34;one&#34;, &#34;force&#34;: true}." in shown
        )
        assert 'value="project"' not in shown, "this page writes no configuration"
        page.post(
            f"/q/{question.id}",
            data={"act": "approve", "scope": "conversation", "about": question.digest},
        )
    id = first.conversation
    assert asyncio.run(it.resume(id)).status == "completed"
    assert asyncio.run(it.run("Again.", conversation=id)).status == "completed"
    assert approvals(store, id) == [("approved", "user"), ("approved", "cached")]
    assert asyncio.run(it.run("Another.", conversation=id)).status == "suspended"
    (standing,) = (each for each in store.read_sync(id).events if isinstance(each, Standing))
    assert standing.rule == {"when": {"branch": "one"}, "exact": True, "run": "unattended"}


@pytest.mark.parametrize("scope", ["conversation", "project", "everywhere"])
def test_permissions_are_not_offered_if_certain_people_decide(
    store: ConversationStore, scope: Scope
) -> None:
    """On the page, over the API, in the store, and at a prompt."""
    written: list[object] = []

    def write(*given: object) -> str:
        written.append(given)
        return "written"

    store = store.with_rule_writer(write)
    it = agent(store, call("ship", env="production"))
    question = asyncio.run(it.run("Ship it.")).pending[0]
    with page_of(store) as page:
        assert "Allow later calls" not in page.get(f"/q/{question.id}").text
        refused = page.post(
            f"/q/{question.id}", data={"act": "approve", "scope": scope, "about": question.digest}
        )
        assert refused.status_code == 422
        assert "Only certain people may decide such calls" in refused.text
        body = {"approve": True, "scope": scope, "about": question.digest}
        sent = page.post(f"/api/questions/{question.id}/answer", json=body)
        assert (sent.status_code, "Only certain people may decide such calls" in sent.text) == (
            422,
            True,
        )
    with pytest.raises(mt.AnswerError, match="Only certain people may decide such calls"):
        store.answer_sync(
            question.id, approve=True, user="ana", digest=question.digest, scope=scope
        )
    assert store.pending_sync()[0].id == question.id
    assert written == []

    class Ana(mt.Prompter):
        user = "ana"
        asked: tuple[object, ...] = ()

        async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
            self.asked = (*self.asked, (prompt.scopes, prompt.error))
            return mt.Answered(True, scope=scope) if len(self.asked) == 1 else mt.Answered(False)

    ana = Ana()
    asyncio.run(it.resume(question.conversation, prompter=ana))
    (first, second) = ana.asked
    assert first == ((), None)
    assert "Only certain people may decide such calls" in str(second)
    assert approvals(store, question.conversation) == [("skipped", "user")]


def test_project_permission_is_written_after_the_yes_is_recorded(store: ConversationStore) -> None:
    written: list[tuple[str, object, str]] = []

    def write(question: mt.OpenQuestion, rule: object, scope: Scope) -> str:
        written.append((question.tool, rule, scope))
        return "Written."

    writing = store.with_rule_writer(write)
    it = agent(store, call("push", branch="one"))
    question = asyncio.run(it.run("Push it.")).pending[0]
    with page_of(store) as page:
        refused = page.post(
            f"/api/questions/{question.id}/answer", json={"approve": True, "scope": "project"}
        )
        assert (refused.status_code, "this program does not write rules" in refused.text) == (
            422,
            True,
        )
        wrong = page.post(
            f"/api/questions/{question.id}/answer", json={"approve": True, "scope": "world"}
        )
        assert wrong.json()["problems"][0]["pointer"] == "/scope"
        no = page.post(
            f"/api/questions/{question.id}/answer", json={"approve": False, "scope": "conversation"}
        )
        assert (no.status_code, "Only a plain answer, or an approval of a call" in no.text) == (
            422,
            True,
        )
    with page_of(writing) as page:
        assert 'value="project"' in page.get(f"/q/{question.id}").text
        sent = page.post(
            f"/api/questions/{question.id}/answer",
            json={"approve": True, "scope": "project", "about": question.digest},
        )
        assert (sent.status_code, sent.json()["standing"]) == (200, "Written.")
        late = page.post(
            f"/api/questions/{question.id}/answer", json={"approve": True, "scope": "everywhere"}
        )
        assert late.status_code == 409
    assert written == [("push", None, "project")]


def test_answer_is_reused_in_the_conversation_if_allowed(store: ConversationStore) -> None:
    ask = asking(Question.boolean("tabs", "Use tabs?", persistence="conversation"), "format")
    other = asking(
        Question.boolean("tabs", "Use tabs in Python?", persistence="conversation"), "style"
    )
    it = agent(store, call("format"), call("format"), call("style"), tools=(ask, other))
    first = asyncio.run(it.run("Format it."))
    question = first.pending[0]
    with page_of(store) as page:
        assert "again in this conversation" in page.get(f"/q/{question.id}").text
        page.post(f"/q/{question.id}", data={"answer": "yes", "scope": "conversation"})
    id = first.conversation
    assert asyncio.run(it.resume(id)).status == "completed"
    assert asyncio.run(it.run("Again.", conversation=id)).status == "completed"
    given = [
        each.answered_by.by
        for each in store.read_sync(id).events
        if isinstance(each, InquiryAnswered) and each.answered_by
    ]
    assert given == ["user", "cached"]
    assert asyncio.run(it.run("Python.", conversation=id)).status == "suspended"
    assert asyncio.run(it.run("Elsewhere.")).status == "suspended"


@pytest.mark.parametrize("persistence", ["turn", "none"])
def test_scope_is_refused_for_other_questions(store: ConversationStore, persistence: Any) -> None:
    it = agent(
        store,
        call("format"),
        tools=(asking(Question.boolean("tabs", "Tabs?", persistence=persistence), "format"),),
    )
    question = asyncio.run(it.run("Format it.")).pending[0]
    with page_of(store) as page:
        assert "again in this conversation" not in page.get(f"/q/{question.id}").text
    with pytest.raises(mt.AnswerError, match="applies only to this question"):
        store.answer_sync(question.id, True, scope="conversation")
    assert store.pending_sync()


def test_secret_is_never_reused() -> None:
    with pytest.raises(mt.QuestionError, match="a secret is never remembered"):
        Question.secret("token", "The token?", persistence="conversation")

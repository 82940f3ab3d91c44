"""Every type of question is answered on its page, by forms without a script."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import midturn as mt
from midturn.cli.question_rows import question_rows
from midturn.events.types import InquiryAnswered, InquiryCancelled
from midturn.inbox.form_session import Drafts
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.store_access import Port
from midturn.question.question import Question
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.opening import FileStore
from midturn.web import inbox, pages
from support.agents import tool_results
from support.pages import (
    OWN,
    ada,
    agent_with,
    asking,
    asking_form,
    browsing,
    carried,
    send,
    wait_for,
)

REGIONS = [mt.SelectOption("eu-1", "Frankfurt"), mt.SelectOption("us-2", "Ohio")]


@pytest.mark.parametrize(
    ("question", "fields", "answer"),
    [
        (Question.boolean("q", "Sure?"), {"answer": "yes"}, True),
        (Question.boolean("q", "Sure?"), {"answer": "no"}, False),
        (Question.select("q", "Where?", REGIONS), {"answer": "1", "act": "answer"}, "us-2"),
        (Question.select("q", "Where?", [1, 2.5]), {"answer": "1", "act": "answer"}, 2.5),
        (
            Question.select("q", "Where?", REGIONS, allow_other=True),
            {"answer": "other", "other": " Mars "},
            {"other": "Mars"},
        ),
        (
            Question.multi_select("q", "Which?", ["a", "b", "c"]),
            {"answer": ["2", "0"], "act": "answer"},
            ["a", "c"],
        ),
        (
            Question.multi_select("q", "Which?", ["a", "b"], allow_other=True),
            {"answer": ["0", "other"], "other": "x"},
            ["a", {"other": "x"}],
        ),
        (Question.multi_select("q", "Which?", ["a", "b"]), {"act": "answer"}, []),
        (Question.text("q", "Say?"), {"answer": "two\r\nlines", "act": "answer"}, "two\nlines"),
        (Question.text("q", "Say?"), {"answer": "", "empty": "meant", "act": "answer"}, ""),
        (Question.text("q", "Say?", optional=True), {"answer": "", "act": "skip"}, None),
        (
            Question.schema("q", "How many?", {"type": "integer", "minimum": 1}),
            {"answer": "3", "act": "answer"},
            3,
        ),
        (Question.schema("q", "Really?", {"type": "boolean"}), {"answer": "yes"}, True),
        (
            Question.schema("q", "Which?", {"enum": ["x", 2, True]}),
            {"answer": "2", "act": "answer"},
            True,
        ),
        (
            Question.schema(
                "q", "Which?", {"$ref": "#/$defs/one", "$defs": {"one": {"enum": [1, "1"]}}}
            ),
            {"answer": "1", "act": "answer"},
            "1",
        ),
        (
            Question.schema("q", "Name?", {"type": "string", "minLength": 2}),
            {"answer": "ab", "act": "answer"},
            "ab",
        ),
        (
            Question.schema("q", "What?", {"type": "object"}),
            {"answer": '{"a": [1]}', "act": "answer"},
            {"a": [1]},
        ),
    ],
)
def test_every_type_is_answered_on_its_page(
    store: MemoryStore, question: Question[Any], fields: dict[str, Any], answer: object
) -> None:
    waiting = wait_for(agent_with(store, asking(question)))
    with browsing(inbox(store, user=ada)) as client:
        assert client.get(f"/q/{waiting.id}").status_code == 200
        sent = send(client, waiting, **fields)
        assert (sent.status_code, sent.headers["location"]) == (303, f"/?done={waiting.id}")
        assert "ada (web) answered" in client.get(sent.headers["location"]).text
    ((_, response),) = store.read_sync(waiting.conversation).pairs()
    assert isinstance(response, InquiryAnswered)
    assert (response.answer, response.answered_by and response.answered_by.user) == (answer, "ada")


@pytest.mark.parametrize(
    ("question", "fields", "said", "kept"),
    [
        (
            Question.boolean("q", "Sure?"),
            {"reason": "because"},
            "Select yes or no.",
            ">because</textarea>",
        ),
        (
            Question.select("q", "Where?", REGIONS, allow_other=True),
            {"answer": "other", "other": ""},
            "Enter your own answer",
            'value="other" checked',
        ),
        (Question.select("q", "Where?", REGIONS), {"answer": "7"}, "Select one of the options", ""),
        (
            Question.multi_select("q", "Which?", ["a", "b", "c"], max=1),
            {"answer": ["0", "1"]},
            "1",
            'value="1" checked',
        ),
        (
            Question.text("q", "Say?"),
            {"answer": ""},
            "The field is empty.",
            'name="empty" value="meant"',
        ),
        (
            Question.schema("q", "How many?", {"type": "integer", "minimum": 5}),
            {"answer": "3"},
            "5",
            'value="3"',
        ),
        (
            Question.schema("q", "How many?", {"type": "integer"}),
            {"answer": "three"},
            "This is not a number.",
            'value="three"',
        ),
        (
            Question.schema("q", "What?", {"type": "object"}),
            {"answer": "{nonsense"},
            "not valid JSON",
            "{nonsense</textarea>",
        ),
    ],
)
def test_invalid_input_is_kept_with_an_error_next_to_the_field(
    store: MemoryStore, question: Question[Any], fields: dict[str, Any], said: str, kept: str
) -> None:
    waiting = wait_for(agent_with(store, asking(question)))
    with browsing(inbox(store, user=ada)) as client:
        page = send(client, waiting, act="answer", **fields)
    assert page.status_code == 422
    assert 'role="alert"' in page.text
    assert said in page.text
    assert kept in page.text
    assert store.pending_sync()


def test_preview_is_shown_completely_below_its_option(store: MemoryStore) -> None:
    options = [mt.SelectOption("wide", preview="+---+\n| <b> |\x1b"), mt.SelectOption("narrow")]
    waiting = wait_for(agent_with(store, asking(Question.select("q", "Which?", options))))
    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/q/{waiting.id}").text
        assert (
            '<code class="option-preview" tabindex="0">+---+\n| &lt;b&gt; |⟨U+001B⟩</code>' in page
        )
        assert page.count("option-preview") == 1
        assert any("The options have previews" in str(about) for _, about in question_rows(waiting))
        assert (
            'value="wide"' not in client.get("/").text
        )  # the list has no answer button, since it does not show the preview


def test_reason_is_recorded_with_the_answer(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking(Question.boolean("q", "Sure?"))))
    with browsing(inbox(store, user=ada)) as client:
        send(client, waiting, answer="no", reason="Not on a Friday.")
    ((_, response),) = store.read_sync(waiting.conversation).pairs()
    assert isinstance(response, InquiryAnswered)
    assert (response.answer, response.reason) == (False, "Not on a Friday.")


def test_reply_and_end_turn_are_recorded(store: MemoryStore) -> None:
    replied = wait_for(agent_with(store, asking(Question.boolean("q", "Sure?"))))
    ended = wait_for(agent_with(store, asking(Question.boolean("q", "Sure?"))))
    with browsing(inbox(store, user=ada)) as client:
        assert send(client, replied, act="reply", reply="Ask me tomorrow.").status_code == 303
        assert send(client, ended, act="end").status_code == 303
        assert "Replied without answering" in client.get(f"/q/{replied.id}").text
        late = send(client, replied, answer="yes", reason="We agreed on it.")
        by_program = client.post(f"/api/questions/{ended.id}/answer", json={"value": True})
    assert late.status_code == 410
    assert f"The question {replied.id} is closed: a reply was given instead." in late.text
    assert "We agreed on it." in late.text
    assert by_program.status_code == 410
    assert (
        by_program.json()["message"]
        == f"The question {ended.id} is closed: its turn was ended by ada (web)."
    )
    assert [
        response.reason
        for id in (replied, ended)
        for _, response in store.read_sync(id.conversation).pairs()
        if isinstance(response, InquiryCancelled)
    ] == ["reply", "user"]


def test_enter_in_a_field_does_not_approve(store: MemoryStore) -> None:
    """Enter presses the first button of a form in a browser. That button does nothing."""
    waiting = wait_for(agent_with(store, asking(Question.boolean("q", "Sure?", default=True))))
    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/q/{waiting.id}").text
    form = page[page.index('class="answer"') :]
    assert (
        form.index("<button disabled hidden>")
        < form.index('name="answer" value="no"')
        < form.index('name="answer" value="yes"')
    )


FORM = mt.Form(
    [
        Question.boolean("apply", "Prepare a release?"),
        Question.select("env", "Where?", ["staging", "production"], when=mt.When("apply", True)),
        Question.text("note", "Anything to add?", optional=True),
    ],
    review=True,
)


def test_form_is_answered_step_by_step_with_back_and_review(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking_form(FORM)))
    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/q/{waiting.id}")
        assert "[1/3]" in page.text
        page = send(client, waiting, answer="yes", walk=carried(page.text))
        assert "[2/3]" in page.text
        page = send(client, waiting, act="answer", answer="1", walk=carried(page.text))
        assert "[3/3]" in page.text
        page = send(client, waiting, act="back", walk=carried(page.text))
        assert 'value="1" checked' in page.text
        page = send(client, waiting, act="answer", answer="0", walk=carried(page.text))
        page = send(client, waiting, act="skip", walk=carried(page.text))
        assert "Send these answers?" in page.text
        assert "staging" in page.text
        assert send(client, waiting, act="send", walk=carried(page.text)).status_code == 303
    answers = {
        request.question_id: response.answer
        for request, response in store.read_sync(waiting.conversation).pairs()
        if isinstance(response, InquiryAnswered)
    }
    assert answers == {"apply": True, "env": "staging", "note": None}


def test_question_with_an_unmet_condition_is_skipped(store: MemoryStore) -> None:
    agent = agent_with(store, asking_form(FORM))
    waiting = wait_for(agent)
    with browsing(inbox(store, user=ada)) as client:
        page = send(client, waiting, answer="no", walk="")
        assert "[3/3]" in page.text
        page = send(client, waiting, act="answer", answer="later", walk=carried(page.text))
        assert "Where?" not in page.text
        send(client, waiting, act="send", walk=carried(page.text))
    assert [
        request.question_id for request, _ in store.read_sync(waiting.conversation).pairs()
    ] == ["apply", "note"]


def test_hidden_fields_are_verified(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking_form(FORM)))
    with browsing(inbox(store, user=ada)) as client:
        for walk in (
            "nonsense",
            "[[[",
            '[{"value": 7}, 3, null, "back", "back"]',
            '{"value": true}',
            '[{"value": "x"}]',
        ):
            page = send(client, waiting, act="answer", walk=walk)
            assert page.status_code == 422
            assert "[1/3]" in page.text
            assert send(client, waiting, act="send", walk=walk).status_code == 422
    assert store.pending_sync()


def test_form_continues_on_another_page_and_server(tmp_path: Path) -> None:
    """This also holds for an inbox mounted in a program. Each `browsing` here is a separate
    server.
    """
    place = tmp_path / "conversations"
    waiting = wait_for(agent_with(FileStore(place), asking_form(FORM)))
    with browsing(inbox(FileStore(place), user=ada)) as client:
        page = send(client, waiting, answer="yes", walk="")
        send(client, waiting, act="answer", answer="1", walk=carried(page.text))
    with browsing(inbox(FileStore(place), user=lambda _: "grace")) as somebody_else:
        assert "[1/3]" in somebody_else.get(f"/q/{waiting.id}").text
    with browsing(inbox(FileStore(place), user=ada)) as client:
        page = client.get(f"/q/{waiting.id}")
        assert "[3/3]" in page.text
        assert "Draft restored." in page.text
        page = send(client, waiting, act="skip", walk=carried(page.text))
        assert send(client, waiting, act="send", walk=carried(page.text)).status_code == 303
    assert [
        response.answer
        for _, response in FileStore(place).read_sync(waiting.conversation).pairs()
        if isinstance(response, InquiryAnswered)
    ] == [True, "production", None]
    assert list((place / "beside").iterdir()) == []


def test_drafts_of_old_forms_are_deleted(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = Port(store)

    async def play() -> list[bool]:
        old, fresh, other = (Drafts(port, question, "ada") for question in ("1-1", "2-1", "3-1"))
        await old.keep([{"value": True}])
        await port.keep("draft/nonsense", b"[")
        await port.keep("card/1", b"of a channel")
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 10 * 24 * 3600)
        await fresh.keep([{"value": True}])
        monkeypatch.setattr(time, "time", lambda: now + 15 * 24 * 3600)
        await other.keep([{"value": True}])
        assert set(await port.kept("card/")) == {"card/1"}
        return [bool(await draft.read()) for draft in (old, fresh, other)]

    assert asyncio.run(play()) == [False, True, True]
    assert len(asyncio.run(port.kept("draft/"))) == 2


def test_separate_review_allows_back_to_its_answers(store: MemoryStore) -> None:
    """The answers are recorded one by one. Back asks a question again, with its previous
    answer.
    """
    agent = agent_with(store, asking_form(FORM))
    waiting = wait_for(agent)
    for answer in ({"apply": True}, {"env": "staging"}, None):
        (now,) = store.pending_sync()
        asyncio.run(store.answer(now.id, answer))
    (review,) = asyncio.run(agent.resume(waiting.conversation)).pending
    assert review.kind == "review"
    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/q/{review.id}").text
        assert "Do not send" not in page
        went_back = send(client, review, act="back")
        page = client.get(went_back.headers["location"])
        assert "Anything to add?" in page.text
        again = went_back.headers["location"].removeprefix("/q/")
        further = client.post(
            f"/q/{again}", data={"act": "back", "walk": carried(page.text)}, headers=OWN
        )
        page = client.get(further.headers["location"])
        assert 'value="0" checked' in page.text
        (now,) = store.pending_sync()
        page = send(client, now, act="answer", answer="1", walk=carried(page.text))
        page = send(client, now, act="answer", answer="Soon.", walk=carried(page.text))
        assert "Send these answers?" in page.text
        assert send(client, now, act="send", walk=carried(page.text)).status_code == 303
    result = asyncio.run(agent.resume(waiting.conversation))
    assert result.status == "completed"
    pairs = store.read_sync(waiting.conversation).pairs()
    latest = {
        request.question_id: response.answer
        for request, response in pairs
        if isinstance(response, InquiryAnswered)
    }
    assert latest == {"apply": True, "env": "production", "note": "Soon."}


def test_answer_is_reused_in_the_turn_if_allowed(store: MemoryStore) -> None:
    @mt.tool(run="ask")
    async def erase(path: str, ctx: mt.ToolContext) -> str:
        """Erase."""
        return f"erased {path}: {await ctx.ask(Question.boolean('sure', 'Sure?'))}"

    calls = [{"name": "erase", "arguments": {"path": name}} for name in "ab"]
    model = mt.ScriptedModel([{"calls": calls[:1]}, {"calls": calls[1:]}, {"text": "Done."}])
    agent = mt.Agent(model, tools=[erase], store=store)
    with browsing(inbox(store, user=ada)) as client:
        permission = wait_for(agent)
        assert "every call of erase in this turn" in client.get(f"/q/{permission.id}").text
        send(client, permission, act="approve", remember="yes")
        question = asyncio.run(agent.resume(permission.conversation)).pending[0]
        assert "every sure of erase in this turn" in client.get(f"/q/{question.id}").text
        send(client, question, answer="yes", remember="yes")
    assert asyncio.run(agent.resume(permission.conversation)).status == "completed"
    assert tool_results(store, permission.conversation) == ["erased a: True", "erased b: True"]


def test_an_approval_shows_the_whole_call_and_takes_a_decision(store: MemoryStore) -> None:
    @mt.tool(run="ask")
    def erase(path: str) -> str:
        """Erase."""
        return f"erased {path}"

    arguments = {"path": "/srv/a\n<script>alert(1)</script>\u202e"}
    agents = [agent_with(store, erase, arguments=arguments) for _ in range(3)]
    refused, changed, allowed = (wait_for(agent) for agent in agents)
    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/q/{refused.id}").text
        assert "/srv/a\n&lt;script&gt;alert(1)&lt;/script&gt;⟨U+202E⟩" in page
        assert send(client, refused, act="refuse", reason="Too dangerous.").status_code == 303
        assert send(client, changed, act="edit", edited='{"path": ').status_code == 422
        assert send(client, changed, act="edit", edited='{"path": "/tmp/b"}').status_code == 303
        assert send(client, allowed, act="approve").status_code == 303
        assert "Denied" in client.get(f"/q/{refused.id}").text
    outcomes = [
        _resumed(agent, question)
        for agent, question in zip(agents, (refused, changed, allowed), strict=True)
    ]
    assert outcomes == [
        ['erase was skipped by the user. Reason: "Too dangerous."'],
        [
            (
                'The user edited the arguments of this call. It ran with: {"path": "/tmp/b"}\nerased'
                " /tmp/b"
            )
        ],
        [f"erased {arguments['path']}"],
    ]


def _resumed(agent: mt.Agent, question: mt.OpenQuestion) -> list[str]:
    asyncio.run(agent.resume(question.conversation))
    return tool_results(agent.store, question.conversation)


def test_repeated_question_shows_the_previous_error(store: MemoryStore) -> None:
    @mt.tool
    async def create(ctx: mt.ToolContext) -> str:
        return await ctx.ask(
            Question.text("name", "Name?"),
            check=lambda name: None if name == "b" else f"{name} is taken.",
        )

    agent = agent_with(store, create)
    store.answer_sync(wait_for(agent).id, "a")
    (conversation,) = store.ids_sync()
    (again,) = agent.resume_sync(conversation).pending

    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/q/{again.id}").text
        listed = client.get("/").text
    assert 'role="alert" id="problems">\n<p>a is taken.</p>' in page
    assert "a is taken." in listed
    assert "An earlier answer was not accepted: a is taken." in [
        str(row) for _, row in question_rows(again)
    ]


def test_questions_are_paginated_and_titles_are_read_per_page(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_SIZE", 2)
    asked = [
        wait_for(
            agent_with(store, asking(Question.boolean("q", f"Sure about {number}?"))),
            f"Ship {number}.",
        )
        for number in range(5)
    ]
    titled: list[str] = []
    original = OpenQuestionList.titles

    async def titles(board: OpenQuestionList, conversations: Iterable[str]) -> dict[str, str]:
        titled.extend(conversations)
        return await original(board, conversations)

    monkeypatch.setattr(OpenQuestionList, "titles", titles)

    def shown(client: TestClient, query: str) -> list[int]:
        html = client.get(f"/{query}").text
        return [
            number for number, question in enumerate(asked) if f'href="/q/{question.id}"' in html
        ]

    with browsing(inbox(store, user=ada)) as client:
        first = client.get("/").text
        assert titled == [question.conversation for question in asked[:2]]
        assert (
            "Inbox · 5 waiting" in first,
            'data-total="5"' in first,
            "Page 1 of 3" in first,
        ) == (True, True, True)
        assert ('href="/?page=2"' in first, "Older" in first) == (True, False)
        assert [shown(client, f"?page={number}") for number in (1, 2, 3, 4, "x", "0")] == [
            [0, 1],
            [2, 3],
            [4],
            [4],
            [0, 1],
            [0, 1],
        ]
        assert shown(client, "?part=list&page=2") == [2, 3]
        assert shown(client, f"?part=group&conversation={asked[4].conversation}") == [4]
        for question in asked[:3]:
            send(client, question, answer="yes")
        assert shown(client, "?page=2") == [3, 4]
        assert "data-total" not in client.get("/").text


def test_count_of_very_many_questions_is_limited(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_SIZE", 2)
    monkeypatch.setattr(pages, "MOST", 4)
    asked = [
        wait_for(agent_with(store, asking(Question.boolean("q", "Sure?"))), f"Ship {number}.")
        for number in range(7)
    ]
    with browsing(inbox(store, user=ada)) as client:
        first, last = client.get("/").text, client.get("/?page=4").text
        assert (
            "Inbox · 4+ waiting" in first,
            'data-total="4+"' in first,
            "Page 1 of 2 or more" in first,
        ) == (True, True, True)
        assert (
            'href="/?page=3"' in client.get("/?page=2").text,
            "Page 4 of 4" in last,
            'rel="next"' in last,
        ) == (True, True, False)
        assert [question.id in last for question in asked] == [False] * 6 + [True]
        assert "Inbox · 7 waiting" in last

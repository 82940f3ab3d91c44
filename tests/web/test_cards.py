"""The list shows what is decided, supports search, and accepts answers to questions that a
card shows completely.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import midturn as mt
from midturn.question.question import Question
from midturn.stores.memory_conversations import MemoryStore
from midturn.web import inbox
from midturn.web.cards import card_of
from support.pages import ada, agent_with, asking, asking_form, browsing, send, wait_for
from support.shown_pages import DIFF, FORM


@pytest.mark.parametrize(
    ("question", "buttons"),
    [
        (Question.boolean("q", "Sure?"), [("no", "No"), ("yes", "Yes")]),
        (
            Question.select("q", "Where?", ["staging", "production"]),
            [("0", "staging"), ("1", "production")],
        ),
        (Question.boolean("q", "Sure?", context="It costs a lot."), []),
        (Question.select("q", "Where?", ["a", "b"], allow_other=True), []),
        (Question.select("q", "Where?", ["a", "b", "c", "d", "e"]), []),
        (Question.text("q", "What?"), []),
        (Question.secret("q", "What?"), []),
    ],
)
def test_completely_shown_question_is_answered_from_its_card(
    store: MemoryStore, question: Question[Any], buttons: list[tuple[str, str]]
) -> None:
    waiting = wait_for(agent_with(store, asking(question)))
    assert list(card_of(waiting).buttons) == buttons
    with browsing(inbox(store, user=ada)) as client:
        page = client.get("/").text
        assert ("data-quick" in page) == bool(buttons)
        if buttons:
            assert send(client, waiting, answer=buttons[1][0]).status_code == 303
            assert asyncio.run(store.pending()) == []


def test_calls_forms_and_permissions_are_opened_before_answering(store: MemoryStore) -> None:
    @mt.tool
    async def deploy(env: str, ctx: mt.ToolContext) -> str:
        """Deploy."""
        return str(await ctx.ask(Question.boolean("q", f"Deploy to {env}?")))

    @mt.tool(run="ask")
    def run_command(command: str) -> str:
        """Run."""
        return command

    for agent in (
        agent_with(store, deploy, arguments={"env": "production"}),
        agent_with(store, run_command, arguments={"command": "rm -rf tmp\nls"}),
        agent_with(store, asking_form(FORM)),
    ):
        assert card_of(wait_for(agent)).buttons == ()
    with browsing(inbox(store, user=ada)) as client:
        page = client.get("/").text
    assert "deploy {&#34;env&#34;: &#34;production&#34;}" in page
    assert "command: rm -rf tmp …" in page
    assert "4 questions" in page


def test_card_shows_first_diff_lines_and_options(store: MemoryStore) -> None:
    change = card_of(
        wait_for(agent_with(store, asking(Question.boolean("q", "Apply?", context=DIFF))))
    )
    assert [(line.kind, line.text) for line in change.lines][1:] == [
        ("del", "Ship on Friday."),
        ("add", "Ship on Monday, after the freeze."),
        ("add", "The freeze ends at nine."),
    ]
    options = card_of(
        wait_for(agent_with(store, asking(Question.select("q", "Which?", list("abcdef")))))
    )
    assert (options.options, options.more) == (("a", "b", "c", "d"), 2)


def test_questions_are_found_by_text_and_asker(store: MemoryStore) -> None:
    for number in range(12):
        wait_for(
            agent_with(
                store,
                asking(Question.boolean("q", f"Deploy number {number}?"), f"tool_{number % 2}"),
            )
        )
    with browsing(inbox(store, user=ada)) as client:
        assert "Search questions" in client.get("/").text
        assert client.get("/?q=number+7").text.count("data-question=") == 1
        assert client.get("/?who=tool_1").text.count("data-question=") == 6
        assert client.get("/?who=tool_1&q=7").text.count("data-question=") == 1
        assert "No matching questions." in client.get("/?q=nothing+of+the+kind").text
        assert client.get("/?mine=yes").text.count("data-question=") == 0
        assert client.get("/?part=count").text == "12"


def test_form_receipt_lists_answers_and_links_to_the_next_question(store: MemoryStore) -> None:
    other = wait_for(agent_with(store, asking(Question.boolean("q", "Sure?"))))
    waiting = wait_for(agent_with(store, asking_form(FORM)))
    with browsing(inbox(store, user=ada)) as client:
        answers = {"apply": True, "env": "staging", "teams": ["support"], "note": None}
        assert (
            client.post(f"/api/questions/{waiting.id}/answer", json={"value": answers}).status_code
            == 200
        )
        page = client.get(f"/?done={waiting.id}").text
    for text in ("Which environment?", "staging", "Who is told?", "support"):
        assert text in page.split("data-list", 1)[0]
    assert f'href="/q/{other.id}" data-next' in page


def test_a_large_page_is_sent_compressed(store: MemoryStore) -> None:
    for number in range(12):
        wait_for(agent_with(store, asking(Question.boolean("q", f"Deploy number {number}?"))))
    with browsing(inbox(store, user=ada)) as client:
        assert (
            client.get("/", headers={"Accept-Encoding": "gzip"}).headers["content-encoding"]
            == "gzip"
        )


@pytest.mark.parametrize(
    "words",
    ["⚠\ufe0f stop", "می\u200cخواهید", "क्\u200dष", "👨\u200d👩\u200d👧"],  # noqa: RUF001  Persian
)
def test_joiners_are_kept_in_questions_and_options(store: MemoryStore, words: str) -> None:
    waiting = wait_for(
        agent_with(store, asking(Question.select("q", f"{words}?", [words, "no"], context=words)))
    )

    assert [label for _, label in card_of(waiting).buttons] in ([], [words, "no"])
    with browsing(inbox(store, user=ada)) as client:
        for page in (client.get("/").text, client.get(f"/q/{waiting.id}").text):
            assert words in page
            assert "⟨U+" not in page

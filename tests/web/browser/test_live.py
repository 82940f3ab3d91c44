"""Pages update by themselves: new questions appear, answered ones disappear, and a late
responder is told.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.requests import Request

from midturn.question.question import Question
from midturn.stores.store import ConversationStore
from midturn.web import inbox, pages
from support.browser import Elsewhere
from support.pages import ada, agent_with, asking
from support.serving import serving

CONFIRM = Question.boolean("q", "Deploy to production?")
_RACES = 50


def test_new_questions_appear_and_answered_ones_disappear(
    page: Page, disk: ConversationStore, elsewhere: Elsewhere[Any], tmp_path: Path
) -> None:
    with serving(inbox(disk, user=ada)) as address:
        page.goto(f"{address}/")
        expect(page.locator("h1")).to_have_text("You're all caught up")
        waiting = elsewhere(agent_with(disk, asking(CONFIRM)).run("Ship it.")).pending[0]
        expect(page.locator("a.item")).to_contain_text("Deploy to production?")
        expect(page).to_have_title("(1) Inbox · midturn")
        command = [
            sys.executable,
            "-m",
            "midturn",
            "answer",
            waiting.id,
            "yes",
            "--store",
            str(tmp_path / "conversations"),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        expect(page.locator("a.item")).to_have_count(0)
        expect(page.locator("h1")).to_have_text("You're all caught up")
        expect(page).to_have_title("Inbox · midturn")
        expect(page.locator("[data-said]")).to_contain_text("was answered")


def test_page_of_many_questions_refills_when_some_are_answered(
    page: Page, disk: ConversationStore, elsewhere: Elsewhere[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_SIZE", 2)
    asked = [
        elsewhere(agent_with(disk, asking(CONFIRM)).run(f"Ship {number}.")).pending[0]
        for number in range(4)
    ]
    with serving(inbox(disk, user=ada)) as address:
        page.goto(f"{address}/")
        expect(page.locator("[data-question]")).to_have_count(2)
        expect(page).to_have_title("(4) Inbox · midturn")
        elsewhere(disk.answer(asked[0].id, value=True))
        expect(page).to_have_title("(3) Inbox · midturn")
        expect(page.locator(f'[data-question="{asked[2].id}"]')).to_have_count(1)
        page.get_by_role("link", name="Newer").click()
        expect(page.locator("[data-question]")).to_have_count(1)
        elsewhere(disk.answer(asked[3].id, value=True))
        expect(page.locator("h1")).to_have_text("Inbox · 2 waiting")
        expect(page.locator("[data-question]")).to_have_count(2)


def test_answer_elsewhere_is_shown_and_typed_text_is_kept(
    page: Page, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    waiting = elsewhere(
        agent_with(disk, asking(Question.text("q", "What should it say?"))).run("Ship it.")
    ).pending[0]
    with serving(inbox(disk, user=ada)) as address:
        with page.expect_response("**/api/events"):  # the page has started to listen
            page.goto(f"{address}/q/{waiting.id}")
        page.locator("textarea#answer").fill("half a sentence")
        elsewhere(disk.answer(waiting.id, "Starts faster.", user="grace", via="web"))
        expect(page.locator("[data-closed] .done")).to_contain_text("grace (web) answered")
        expect(page.locator("[data-closed] .done")).to_contain_text("Starts faster.")
        expect(page.get_by_role("button", name="Answer")).to_be_disabled()
        expect(page.locator("textarea#answer")).to_have_value("half a sentence")


def test_second_browser_is_told_the_first_responder(
    chromium: Browser, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    def who(request: Any) -> str:
        return request.headers["user-agent"]

    results: list[tuple[str, str]] = []
    with serving(inbox(disk, user=who)) as address:
        contexts = [
            chromium.new_context(user_agent=name, java_script_enabled=True)
            for name in ("ada", "grace")
        ]
        pages = [context.new_page() for context in contexts]
        for _ in range(_RACES):
            waiting = elsewhere(agent_with(disk, asking(CONFIRM)).run("Ship it.")).pending[0]
            for page in pages:
                page.goto(f"{address}/q/{waiting.id}")
            for page, answer in zip(pages, ("yes", "no"), strict=True):
                page.evaluate(
                    "answer => { setTimeout(() =>"
                    " document.querySelector(`button[value=${answer}]`).click(), 30) }",
                    answer,
                )
            for page in pages:
                expect(page.locator(".done").first).to_contain_text("answered")
            told = [page.locator(".done").first.inner_text() for page in pages]
            ((_, response),) = elsewhere(disk.read(waiting.conversation)).pairs()
            winner = response.answered_by.user
            assert all(f"{winner} (web) answered" in text for text in told), (winner, told)
            results.append((winner or "", told[0]))
        for context in contexts:
            context.close()
    assert len(results) == _RACES


def test_sign_out_is_shown_and_input_is_kept(
    page: Page, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    signed_in = [True]
    waiting = elsewhere(
        agent_with(disk, asking(Question.text("q", "What should it say?"))).run("Ship it.")
    ).pending[0]

    def user(_: Request) -> str | None:
        return "ada" if signed_in[0] else None

    app = inbox(disk, user=user)
    with serving(app) as address:
        with page.expect_response("**/api/events"):  # the page has started to listen
            page.goto(f"{address}/q/{waiting.id}")
        page.locator("textarea#answer").fill("half a sentence")
        signed_in[0] = False
    port = int(address.rsplit(":", 1)[1])
    with serving(app, port):
        expect(page.locator("[data-signed-out]")).to_be_visible()
        expect(page.locator("textarea#answer")).to_have_value("half a sentence")
        signed_in[0] = True
        expect(page.locator("[data-signed-out]")).to_be_hidden()
        page.get_by_role("button", name="Answer").click()
        expect(page.locator(".done")).to_contain_text("half a sentence")


def test_conversation_page_is_unchanged_while_the_server_is_unreachable(
    page: Page, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    waiting = elsewhere(agent_with(disk, asking(CONFIRM)).run("Ship it.")).pending[0]
    with serving(inbox(disk, user=ada)) as address:
        page.goto(f"{address}/c/{waiting.conversation}")
        expect(page.locator("[data-timeline]")).to_contain_text("Ship it.")
    for _ in range(2):  # at the second failure, the error of the first one was reported
        page.wait_for_event("requestfailed", lambda request: "part=timeline" in request.url)
    expect(page.locator("[data-timeline]")).to_contain_text("Ship it.")

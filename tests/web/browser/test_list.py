"""The list in a browser: answering, undo, keys, and lost connections."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser, Page, expect

from midturn.question.question import Question
from midturn.stores.store import ConversationStore
from midturn.web import inbox
from support.browser import Elsewhere
from support.pages import ada, agent_with, asking, asking_form
from support.serving import serving
from support.shown_pages import FORM

CONFIRM = Question.boolean("q", "Deploy to production?")


def test_answer_from_the_list_can_be_undone(
    page: Page, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    waiting = elsewhere(agent_with(disk, asking(CONFIRM)).run("Ship it.")).pending[0]
    with serving(inbox(disk, user=ada)) as address:
        page.goto(f"{address}/")
        expect(page.locator("[data-moved]")).to_have_count(0)  # a tap selects this card
        page.get_by_role("button", name="No: Deploy").click()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_role("button", name="No: Deploy")).to_be_focused()
        expect(page.locator("[data-moved]")).to_have_count(0)
        page.get_by_role("button", name="Yes: Deploy").click()
        expect(page.locator("h1")).to_have_text("Inbox · 1 waiting")
        expect(page.locator("h1")).to_have_text("You're all caught up")
    assert [
        pair.response.answer for pair in elsewhere(disk.read(waiting.conversation)).pairs()
    ] == [True]


def test_lost_connection_is_shown_and_a_tap_sends_again(
    page: Page, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    waiting = elsewhere(agent_with(disk, asking(CONFIRM)).run("Ship it.")).pending[0]
    with serving(inbox(disk, user=ada)) as address:
        page.goto(f"{address}/")
        expect(page.locator("[data-moved]")).to_have_count(0)
    expect(page.locator("[data-offline]")).to_contain_text("Offline since")
    page.get_by_role("button", name="Yes: Deploy").click()
    again = page.get_by_role("button", name="Send Yes again")
    expect(again).to_be_visible()
    with serving(inbox(disk, user=ada), int(address.rsplit(":", 1)[1])):
        expect(page.locator("[data-offline]")).to_be_hidden()
        assert [question.id for question in elsewhere(disk.pending())] == [
            waiting.id
        ]  # nothing was sent automatically
        page.goto(f"{address}/")
        expect(page.locator("[data-moved]")).to_have_count(0)
        page.get_by_role("button", name="Yes: Deploy").click()
        expect(page.locator("h1")).to_have_text("You're all caught up")


def test_keys_move_and_answer_in_two_panes(
    chromium: Browser, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    asked = [
        elsewhere(
            agent_with(disk, asking(Question.text("q", f"What is {n}?"))).run(f"Say {n}.")
        ).pending[0]
        for n in range(2)
    ]
    last = elsewhere(agent_with(disk, asking(CONFIRM)).run("Ship it.")).pending[0]
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    with serving(inbox(disk, user=ada)) as address:
        page.goto(f"{address}/")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/q/{asked[1].id}")
        expect(page.locator("aside a.item")).to_have_count(3)
        expect(page.locator("aside [aria-current]")).to_contain_text("What is 1?")
        page.locator("#answer").fill("half a sentence, y n j k")
        page.reload()
        expect(page.locator("#answer")).to_have_value("half a sentence, y n j k")
        page.goto(f"{address}/q/{last.id}")
        expect(page.locator("body[data-pressed]")).to_have_count(0)
        page.keyboard.press("y")
        expect(page.locator(".done")).to_contain_text("ada (web)")
        expect(page.get_by_role("link", name="Next question")).to_be_focused()
    context.close()


def test_list_stays_next_to_a_form_in_progress(
    chromium: Browser, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    """The next question of a form and validation errors are shown next to the list, which
    stays live.
    """
    waiting = elsewhere(agent_with(disk, asking_form(FORM)).run("Release.")).pending[0]
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    with serving(inbox(disk, user=ada)) as address:
        page.goto(f"{address}/q/{waiting.id}")
        expect(page.locator("aside a.item")).to_have_count(1)
        page.get_by_role("button", name="Yes").click()
        expect(page.locator(".place")).to_have_text("[2/4]")
        expect(page.locator("aside a.item")).to_be_visible()
        page.get_by_role("button", name="Next").click()
        expect(page.locator(".problem").first).to_be_visible()
        expect(page.locator("aside [aria-current]")).to_contain_text("Prepare a release now?")
        elsewhere(agent_with(disk, asking(CONFIRM)).run("Ship it."))
        expect(page.locator("aside a.item")).to_have_count(2)
    context.close()

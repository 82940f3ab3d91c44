"""The list in a browser: answered from, taken back, walked with keys; and a server that is gone is seen."""

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


def test_an_answer_from_the_list_is_taken_back_or_sent(page: Page, disk: ConversationStore, elsewhere: Elsewhere[Any]) -> None:
    waiting = elsewhere(agent_with(disk, asking(CONFIRM)).run("Ship it.")).pending[0]
    with serving(inbox(disk, user=ada)) as address:
        page.goto(f"{address}/")
        expect(page.locator("[data-moved]")).to_have_count(0)  # a tap means this card
        page.get_by_role("button", name="No: Deploy").click()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_role("button", name="No: Deploy")).to_be_focused()
        expect(page.locator("[data-moved]")).to_have_count(0)
        page.get_by_role("button", name="Yes: Deploy").click()
        expect(page.locator("h1")).to_have_text("1 open question")
        expect(page.locator("h1")).to_have_text("Nothing waits for you", timeout=15_000)
    assert [pair.response.answer for pair in elsewhere(disk.read(waiting.conversation)).pairs()] == [True]


def test_a_server_that_is_gone_is_seen_and_what_was_tapped_is_sent_again_by_a_tap(
    page: Page, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    waiting = elsewhere(agent_with(disk, asking(CONFIRM)).run("Ship it.")).pending[0]
    with serving(inbox(disk, user=ada)) as address:
        page.goto(f"{address}/")
        expect(page.locator("[data-moved]")).to_have_count(0)
    expect(page.locator("[data-offline]")).to_contain_text("No connection since", timeout=15_000)
    page.get_by_role("button", name="Yes: Deploy").click()
    again = page.get_by_role("button", name="Send Yes again")
    expect(again).to_be_visible(timeout=15_000)
    with serving(inbox(disk, user=ada), int(address.rsplit(":", 1)[1])):
        expect(page.locator("[data-offline]")).to_be_hidden(timeout=15_000)
        assert [question.id for question in elsewhere(disk.pending())] == [waiting.id]  # nothing went by itself
        page.goto(f"{address}/")
        expect(page.locator("[data-moved]")).to_have_count(0)
        page.get_by_role("button", name="Yes: Deploy").click()
        expect(page.locator("h1")).to_have_text("Nothing waits for you", timeout=15_000)


def test_keys_move_and_answer_and_two_panes_stand_side_by_side(
    chromium: Browser, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    asked = [elsewhere(agent_with(disk, asking(Question.text("q", f"What is {n}?"))).run(f"Say {n}.")).pending[0] for n in range(2)]
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


def test_the_list_stays_beside_a_form_that_goes_on(chromium: Browser, disk: ConversationStore, elsewhere: Elsewhere[Any]) -> None:
    """The next question of a form, and what is wrong with an answer, come beside the list, too; and it stays live."""
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

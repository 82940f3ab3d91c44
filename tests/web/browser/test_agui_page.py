"""The page of `examples/agui` in Chromium. `agent.py` and `page_server.py` run as a process."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from midturn.channels.port import ChannelSettings
from midturn.channels.running import run
from midturn.channels.state import ChannelState
from midturn.clock import now
from midturn.events.types import InquiryAnswered
from midturn.stores.store import ConversationStore
from support.agui_page import PageServer, copy_of_example, responses
from support.browser import Elsewhere
from support.hostile_markup import ATTACKER_URL, HOSTILE
from support.installed import or_skip
from support.waiting import until

pytestmark = [
    pytest.mark.real("Chromium and the page's packages", may_be_missing=True),
    pytest.mark.filterwarnings("ignore"),  # the Telegram library's
]
ANA = 7
POLICY = "Content-Security-Policy"


@pytest.fixture
def server(tmp_path: Path) -> Generator[PageServer]:
    """The server of the example's agent. It is not running yet."""
    server = PageServer(or_skip(lambda: copy_of_example(tmp_path)))
    yield server
    server.kill()


class PageBrowser:
    """A browser with the page. Errors of scripts and of event handlers fail the test."""

    def __init__(self, chromium: Browser, width: int, scheme: Any = "light") -> None:
        self.context: BrowserContext = chromium.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.errors: list[str] = []
        self.requested: set[str] = set()
        self.context.on("request", lambda request: self.requested.add(request.url))

    def open(self, address: str) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self._note_error(str(error)))
        page.on("console", lambda message: self._note(message.type, message.text))
        page.goto(address)
        return page

    def _note_error(self, text: str) -> None:
        if (
            text != "network error"
        ):  # `@ag-ui/client` throws it a second time, where nobody catches it
            self.errors.append(text)

    def _note(self, kind: str, text: str) -> None:
        if (
            kind == "error" and "Subscriber error" in text
        ):  # the client library reports it only here
            self.errors.append(text)


@contextmanager
def browsing(chromium: Browser, width: int = 768, scheme: str = "light") -> Generator[PageBrowser]:
    browser = PageBrowser(chromium, width, scheme)
    yield browser
    browser.context.close()
    assert browser.errors == []


@pytest.fixture
def browser(chromium: Browser) -> Generator[PageBrowser]:
    """A browser with its own cookies."""
    with browsing(chromium) as browser:
        yield browser


def say(page: Page, text: str = "Release it.") -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def card(page: Page, title: str) -> Any:
    """Return the open question with a title."""
    return page.locator("article").filter(has=page.get_by_role("heading", name=title))


FORM, APPROVAL, ANNOUNCEMENT = "Please answer", "Run deploy?", "Announce the release now?"


def fill_form(page: Page, version: str = "2.4") -> None:
    form = card(page, FORM)
    form.get_by_label("Which version?").fill(version)
    form.get_by_label("staging: for the team").check()
    form.get_by_label("tests").check()
    form.get_by_label("Per cent of users first?").fill("20")
    form.get_by_label("On which day?").fill("2026-12-24")
    form.get_by_role("group", name="Tell the customers?").get_by_label("Yes").check()
    form.get_by_label("What shall we tell them?").fill("It is faster.")


def send_form(page: Page) -> None:
    page.get_by_role("button", name="Send answers").click()


def go_to_approval(page: Page) -> None:
    say(page)
    fill_form(page)
    send_form(page)
    expect(card(page, APPROVAL)).to_be_visible()


def go_to_announcement(page: Page) -> None:
    go_to_approval(page)
    page.get_by_role("button", name="Approve").click()
    expect(card(page, ANNOUNCEMENT)).to_be_visible()


def expect_end(page: Page) -> None:
    expect(page.get_by_text("That is all.")).to_be_visible()
    expect(page.locator("article")).to_have_count(0)


async def responders(store: ConversationStore) -> list[tuple[str | None, str | None]]:
    """Return the user and the interface of each recorded answer."""
    (conversation,) = await store.ids()
    events = (await store.read(conversation)).events
    given = [event.answered_by for event in events if isinstance(event, InquiryAnswered)]
    return [(each.user, each.via) for each in given if each is not None]


# Answers
# --------------------------------------------------------------------------------------------------


def test_form_approval_and_question(
    server: PageServer, browser: PageBrowser, elsewhere: Elsewhere[Any]
) -> None:
    page = browser.open(server.start())
    say(page)
    form = card(page, FORM)
    send_form(page)  # empty
    expect(form.locator(".problem:visible")).to_have_count(6)
    expect(form.get_by_label("Which version?")).to_be_focused()
    expect(form.get_by_label("What shall we tell them?")).to_be_hidden()  # its condition
    fill_form(page, version="2.x")
    send_form(page)
    problem = form.locator(".field").filter(has_text="Which version?").locator(".problem")
    expect(problem).to_contain_text("does not match")  # the server's
    expect(form.get_by_label("Which version?")).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_label("Per cent of users first?")).to_have_value("20")
    form.get_by_label("Which version?").fill("2.4")
    send_form(page)
    approval = card(page, APPROVAL)
    expect(page.locator(":focus")).to_have_text(APPROVAL)
    approval.get_by_text("Edit the arguments").click()
    approval.get_by_label("replicas").fill("5")
    approval.get_by_label("us", exact=True).check()
    approval.get_by_role("button", name="Approve").click()
    question = card(page, ANNOUNCEMENT)
    expect(question.get_by_role("timer")).to_contain_text("Answer within 1 min")
    question.get_by_role("button", name="Yes").click()
    expect_end(page)
    found = elsewhere(responses(server.store))
    assert '"words":' in found["plan"].replace('": ', '":')
    assert "shop runs 5 times in us." in found["deploy"]
    assert found["announce"] == "Announced."
    assert elsewhere(responders(server.store))[-1] == ("ada", "agui")


def test_choice_in_own_words_and_skipped_questions(
    server: PageServer, browser: PageBrowser, elsewhere: Elsewhere[Any]
) -> None:
    page = browser.open(server.start())
    say(page)
    fill_form(page)
    form = card(page, FORM)
    form.get_by_label("Your own words").fill("the moon")
    form.get_by_role("group", name="Tell the customers?").get_by_label("No").check()
    send_form(page)
    expect(card(page, APPROVAL)).to_be_visible()
    plan = elsewhere(responses(server.store))["plan"]
    assert '"where": {"other": "the moon"}' in plan
    assert '"tell": false, "words": null' in plan


def test_denial_with_a_reason(
    server: PageServer, browser: PageBrowser, elsewhere: Elsewhere[Any]
) -> None:
    page = browser.open(server.start())
    go_to_approval(page)
    approval = card(page, APPROVAL)
    approval.get_by_label("Reason").fill("Not on a Friday.")
    approval.get_by_role("button", name="Deny").click()
    expect(card(page, ANNOUNCEMENT)).to_be_visible()
    assert "Not on a Friday." in elsewhere(responses(server.store))["deploy"]


def test_invalid_argument_is_reported_at_its_field(
    server: PageServer, browser: PageBrowser
) -> None:
    page = browser.open(server.start())
    go_to_approval(page)
    approval = card(page, APPROVAL)
    approval.get_by_text("Edit the arguments").click()
    approval.get_by_label("replicas").fill("50")
    approval.get_by_role("button", name="Approve").click()
    expect(
        approval.locator(".field").filter(has_text="replicas").locator(".problem")
    ).to_be_visible()
    expect(approval.get_by_label("replicas")).to_be_focused()


def test_reply_and_end_of_the_turn(
    server: PageServer, browser: PageBrowser, elsewhere: Elsewhere[Any]
) -> None:
    page = browser.open(server.start())
    say(page)
    form = card(page, FORM)
    form.get_by_text("Reply without answering").click()
    form.get_by_label("Reply", exact=False).last.fill("Plan it yourself.")
    form.get_by_role("button", name="Send reply").click()
    approval = card(page, APPROVAL)
    expect(approval).to_be_visible()
    assert "Plan it yourself." in elsewhere(responses(server.store))["plan"]
    approval.get_by_text("Stop the agent").click()
    approval.get_by_role("button", name="Stop").click()
    expect(page.locator("article")).to_have_count(0)
    say(page, "Another one.")
    expect(card(page, ANNOUNCEMENT)).to_be_visible()  # the script goes on


def test_deadline_passes(tmp_path: Path, browser: PageBrowser, elsewhere: Elsewhere[Any]) -> None:
    folder = or_skip(lambda: copy_of_example(tmp_path))
    server = PageServer(folder, "agent.py", "--deadline", "3s")
    try:
        page = browser.open(server.start())
        go_to_approval(page)
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".note")).to_contain_text("The deadline has passed without an answer.")
        expect_end(page)
        assert "Nobody answered in time." in elsewhere(responses(server.store))["announce"]
    finally:
        server.kill()


# Other interfaces, browsers, and servers that end
# --------------------------------------------------------------------------------------------------


def test_answer_in_telegram_is_shown_with_its_author(
    server: PageServer, browser: PageBrowser, elsewhere: Elsewhere[Any]
) -> None:
    pytest.importorskip("aiohttp")
    pytest.importorskip("telegram")
    page = browser.open(server.start())
    go_to_announcement(page)
    elsewhere(_answer_in_telegram(server.store))
    note = page.locator(".note")
    expect(note).to_contain_text("Answered by ana in Telegram.")
    expect(note).to_contain_text(ANNOUNCEMENT)
    expect_end(page)
    assert elsewhere(responses(server.store))["announce"] == "Announced."
    assert elsewhere(responders(server.store))[-1] == ("ana", "telegram")


async def _answer_in_telegram(store: ConversationStore) -> None:
    """Run the channel until Ana has pressed the button."""
    from midturn.channels.telegram import Telegram
    from support.channels.telegram import TOKEN, telegram_server

    state = ChannelState(store.port, now)
    async with telegram_server() as phone:
        await state.redeem_code("telegram", str(ANA), await state.create_code("ana", "telegram"))
        channel = Telegram(TOKEN, api=phone.address)
        running = asyncio.create_task(run(store, [(channel, ChannelSettings(name="phone"))]))
        cards = phone.cards
        await until(lambda: any(_has_buttons(message) for message in cards(ANA).values()))
        number = next(number for number, each in cards(ANA).items() if _has_buttons(each))
        phone.press(ANA, ANA, number, "Yes")
        await until(lambda: "Answered by ana" in cards(ANA)[number]["text"])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _has_buttons(message: Any) -> bool:
    return bool(message["reply_markup"]["inline_keyboard"])


def test_first_of_two_browsers_wins(
    server: PageServer, chromium: Browser, browser: PageBrowser, elsewhere: Elsewhere[Any]
) -> None:
    """The third browser gets no events, so that it answers a closed question."""
    address = server.start()
    first = browser.open(address)
    go_to_announcement(first)
    with browsing(chromium) as other:
        other.open(address)  # signs in
        second = other.open(first.url)  # the same thread
        expect(card(second, ANNOUNCEMENT)).to_be_visible()
        with browsing(chromium) as late:
            late.context.route("**/events", lambda route: route.abort())
            late.open(address)
            third = late.open(first.url)
            expect(card(third, ANNOUNCEMENT)).to_be_visible()
            card(first, ANNOUNCEMENT).get_by_role("button", name="Yes").click()
            expect_end(first)
            expect(first.locator(".note")).to_have_count(0)
            expect(second.locator(".note")).to_contain_text(
                "Answered by ada in another chat window."
            )
            expect_end(second)
            card(third, ANNOUNCEMENT).get_by_role("button", name="No").click()
            expect(third.locator(".note")).to_contain_text("Your answer was not used.")
            expect(third.locator(".note")).to_contain_text("Answered by ada")
            expect_end(third)
    assert elsewhere(responses(server.store))["announce"] == "Announced."


def test_reload_keeps_messages_questions_and_what_was_typed(
    server: PageServer, browser: PageBrowser
) -> None:
    page = browser.open(server.start())
    say(page)
    fill_form(page)
    page.reload()
    expect(page.locator(".message.user")).to_have_text("You: Release it.")
    expect(page.get_by_label("Which version?")).to_have_value("2.4")
    expect(page.get_by_label("What shall we tell them?")).to_have_value("It is faster.")
    send_form(page)
    expect(card(page, APPROVAL)).to_be_visible()
    page.reload()
    card(page, APPROVAL).get_by_role("button", name="Approve").click()
    expect(card(page, ANNOUNCEMENT)).to_be_visible()
    expect(page.locator(".message")).to_have_count(7)


def test_killed_server_is_continued(
    server: PageServer, browser: PageBrowser, elsewhere: Elsewhere[Any]
) -> None:
    page = browser.open(server.start())
    say(page)
    fill_form(page)
    server.kill()
    send_form(page)
    expect(page.locator("#connection")).to_contain_text("Connection lost")
    server.start()
    expect(page.locator("#connection")).to_be_hidden()
    approval = card(page, APPROVAL)
    expect(approval).to_be_visible()
    server.kill()
    server.start()
    approval.get_by_role("button", name="Approve").click()
    card(page, ANNOUNCEMENT).get_by_role("button", name="Yes").click()
    expect_end(page)
    assert len(elsewhere(responders(server.store))) == 8  # 7 of the form; an approval is no answer


def test_server_killed_while_it_streams(server: PageServer, browser: PageBrowser) -> None:
    """The message is sent again with the same run, and starts one turn."""
    page = browser.open(server.start())
    say(page)
    expect(page.locator(".message.assistant").first).to_be_visible()
    server.kill()
    expect(page.locator("#connection")).to_contain_text("Connection lost")
    server.start()
    expect(card(page, FORM)).to_be_visible()
    expect(page.locator(".message.user")).to_have_count(1)
    expect(page.get_by_text("Let us plan the release first.")).to_have_count(1)


def test_message_over_an_open_question(server: PageServer, browser: PageBrowser) -> None:
    page = browser.open(server.start())
    say(page)
    expect(card(page, FORM)).to_be_visible()
    say(page, "Hurry up.")
    expect(page.locator(":focus")).to_contain_text(FORM)
    expect(page.get_by_label("Message", exact=True)).to_have_value("Hurry up.")


def test_browser_without_the_token(server: PageServer, browser: PageBrowser) -> None:
    address = server.start().partition("?")[0]
    page = browser.open(address)
    expect(page.get_by_role("alert")).to_contain_text("You are not signed in.")


def test_names_of_other_sites_are_refused(server: PageServer) -> None:
    """page_server.py accepts only names of this machine, so that no other site can use the cookie."""
    address = server.start()
    assert httpx.get(address, headers={"Host": "evil.example"}).status_code == 400
    assert "script-src 'self'" in httpx.get(address, follow_redirects=True).headers[POLICY]


# Foreign text, accessibility, keyboard
# --------------------------------------------------------------------------------------------------


HOSTILE_AGENT = """
import json, sys
import midturn as mt
import agent

TEXTS = json.loads(sys.argv.pop())
LINES = [" ".join(text.split())[:200] for text in TEXTS]
QUESTIONS = [
    mt.Question.text("text", LINES[0], context=TEXTS[0], default=LINES[0]),
    mt.Question.select("choice", LINES[0], [mt.SelectOption(LINES[0], LINES[1]), LINES[1]]),
    mt.Question.multi_select("several", LINES[1], LINES),
    mt.Question.schema("object", LINES[1], {
        "type": "object", "title": TEXTS[0], "description": TEXTS[1],
        "properties": {TEXTS[0]: {"type": "string", "title": TEXTS[1], "description": TEXTS[0]}},
    }),
]

@mt.tool
async def plan(ctx: mt.ToolContext) -> str:
    await ctx.ask_form(mt.Form(QUESTIONS))
    return TEXTS[0]

@mt.tool(run="ask")
async def deploy(name: str, extra: dict[str, str]) -> str:
    return TEXTS[1]

agent.SCRIPT = (
    {"text": TEXTS[0], "reasoning": TEXTS[1], "calls": [{"name": "plan"}]},
    {"text": TEXTS[1], "calls": [
        {"name": "deploy", "arguments": {"name": TEXTS[0], "extra": {TEXTS[0]: TEXTS[1]}}}
    ]},
    {"text": "That is all."},
)
agent.plan, agent.deploy = plan, deploy
agent.main()
"""
_FOREIGN = "script, iframe, object, embed, img, video, audio, svg, style, link, meta, base, a"


@pytest.mark.parametrize("place", range(0, 256, 64))
def test_hostile_text_is_shown_as_text(tmp_path: Path, browser: PageBrowser, place: int) -> None:
    import json

    texts = [text.replace("\x00", "") for text in HOSTILE[place : place + 2]]
    folder = or_skip(lambda: copy_of_example(tmp_path))
    (folder / "hostile.py").write_text(HOSTILE_AGENT)
    server = PageServer(folder, "hostile.py", json.dumps(texts))
    try:
        page = browser.open(server.start())
        page.on("dialog", lambda dialog: browser.errors.append(dialog.message))
        say(page, texts[0])
        form = card(page, FORM)
        expect(
            form.locator(".context, .hint").filter(has_text=texts[0][:20]).first
        ).to_be_attached()
        assert page.locator("body").locator(_FOREIGN).count() == 1  # our link to the message
        form.get_by_role("radio").first.check()
        form.get_by_role("checkbox").first.check()
        send_form(page)
        approval = card(page, "Run deploy?")
        expect(approval.locator("pre").first).to_be_visible()
        assert page.locator("body").locator(_FOREIGN).count() == 1
        approval.get_by_role("button", name="Approve").click()
        expect_end(page)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        assert page.evaluate("window.__ran") is None
        assert not [url for url in browser.requested if url.startswith(ATTACKER_URL)]
    finally:
        server.kill()


def violated(page: Page) -> list[str]:
    """Return the violated rules and elements, with all details unfolded."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    violations = cast("list[dict[str, Any]]", Axe().run(page)["violations"])
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in violations]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_passes_and_the_page_fits_the_narrowest_screen(
    server: PageServer, chromium: Browser, scheme: str
) -> None:
    found: dict[str, list[str]] = {}

    def check(page: Page, name: str) -> None:
        if violations := violated(page):
            found[name] = violations
        if page.evaluate("document.documentElement.scrollWidth") > 320:
            found[f"{name} is too wide"] = []

    with browsing(chromium, 320, scheme) as browser:
        page = browser.open(server.start())
        check(page, "empty")
        say(page)
        expect(card(page, FORM)).to_be_visible()
        check(page, "form")
        send_form(page)
        check(page, "problems")
        fill_form(page)
        send_form(page)
        expect(card(page, APPROVAL)).to_be_visible()
        check(page, "approval")
        page.get_by_role("button", name="Approve").click()
        expect(card(page, ANNOUNCEMENT)).to_be_visible()
        check(page, "deadline")
        card(page, ANNOUNCEMENT).get_by_role("button", name="No").click()
        expect_end(page)
        check(page, "end")
    assert found == {}


def test_page_is_used_by_keyboard(server: PageServer, browser: PageBrowser) -> None:
    page = browser.open(server.start())
    _tab_to(page, "#words")
    page.keyboard.type("Release it.")
    page.keyboard.press("Enter")
    expect(card(page, FORM)).to_be_visible()
    card(page, FORM).get_by_role("heading").focus()
    answers = {"version": "2.4", "where": " ", "checks": " ", "percent": "20", "day": "12242026"}
    for name, keys in {**answers, "tell": " "}.items():
        _tab_to(page, f"[name='/{name}']")
        page.keyboard.type(keys)
    _tab_to(page, "[name='/words']")
    _tab_to(page, "button.primary")
    page.keyboard.press("Enter")
    expect(page.locator(":focus")).to_have_text(APPROVAL)
    _tab_to(page, "summary")
    page.keyboard.press("Enter")
    _tab_to(page, "[name='/editedArgs/replicas']")
    page.keyboard.type("4")
    _tab_to(page, "button.primary")
    page.keyboard.press("Space")
    expect(page.locator(":focus")).to_have_text(ANNOUNCEMENT)
    _tab_to(page, "button.primary")
    page.keyboard.press("Space")
    expect_end(page)
    page.locator(".call summary").nth(1).click()
    expect(page.locator(".call").nth(1)).to_contain_text("shop runs 4 times in eu.")


def _tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.locator(f"{selector}:focus").count():
            return
    pytest.fail(f"Tab does not reach {selector}")

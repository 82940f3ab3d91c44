"""Every type of question is answered in a browser: by the keyboard only, and without
JavaScript.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from playwright.sync_api import Browser, Page, expect

import midturn as mt
from midturn.events.types import InquiryAnswered, InquiryRedacted
from midturn.question.question import Question
from midturn.stores.store import ConversationStore
from midturn.web import inbox
from support.browser import Elsewhere
from support.page_input import tab_to
from support.pages import ada, agent_with, asking, asking_form
from support.serving import serving
from support.shown_pages import FORM, LIMITS, REGIONS

Person: TypeAlias = "tuple[Page, Callable[[Page, Steps], None]]"
Steps: TypeAlias = list[tuple[str, str]]
"""Steps of an answer: the element to focus, and the key or text."""
EVERY_TYPE: list[tuple[Question[Any], Steps, Any]] = [
    (Question.boolean("q", "Sure?"), [("button[value=yes]", "Enter")], True),
    (Question.boolean("q", "Sure?", default=True), [("button[value=no]", "Enter")], False),
    (
        Question.select("q", "Where?", REGIONS),
        [("input[value='0']", "ArrowDown"), ("button.primary", "Enter")],
        "us-2",
    ),
    (
        Question.select("q", "Where?", REGIONS, allow_other=True),
        [("[name=other]", "=Mars"), ("[name=other]", "Enter")],
        {"other": "Mars"},
    ),
    (
        Question.multi_select("q", "Which?", ["a", "b", "c"]),
        [("input[value='0']", "Space"), ("input[value='2']", "Space"), ("button.primary", "Enter")],
        ["a", "c"],
    ),
    (
        Question.text("q", "Say?"),
        [("textarea#answer", "=two\nlines"), ("button.primary", "Enter")],
        "two\nlines",
    ),
    (
        Question.schema("q", "How many?", {"type": "integer"}),
        [("input#answer", "=12"), ("input#answer", "Enter")],
        12,
    ),
    (
        Question.schema("q", "Which limits?", LIMITS),
        [
            ("input[name='f/cpu']", "=1.5"),
            ("textarea[name='f/memory']", "=2 GB"),
            ("button.primary", "Enter"),
        ],
        {"cpu": 1.5, "memory": "2 GB"},
    ),
    (
        Question.schema("q", "Which limits?", LIMITS),
        [
            ("button[value='as json']", "Enter"),
            ("textarea#answer", '={"cpu": 1.5, "memory": "2 GB"}'),
            ("button.primary", "Enter"),
        ],
        {"cpu": 1.5, "memory": "2 GB"},
    ),
    (
        Question.secret("q", "Passphrase?"),
        [("input#secret", "=hunter2"), ("input#secret", "Enter")],
        mt.SecretValue,
    ),
]
NAMES = [
    f"{question.answer_type.__class__.__name__}-{place}"
    for place, (question, _, _) in enumerate(EVERY_TYPE)
]


def with_keys(page: Page, steps: Steps) -> None:
    """Answer by keyboard. Tab moves to each element in order."""
    for target, keys in steps:
        tab_to(page, target)
        if keys.startswith("="):
            for place, part in enumerate(keys[1:].split("\n")):
                if place:
                    page.keyboard.press("Enter")
                page.keyboard.insert_text(part)
        else:
            page.keyboard.press(keys)


def with_clicks(page: Page, steps: Steps) -> None:
    """Answer by touch, without scripts."""
    for target, keys in steps:
        place = page.locator(target).first
        if keys.startswith("="):
            place.fill(keys[1:])
            if target == "[name=other]":
                page.locator("input[value=other]").check()
        elif keys == "ArrowDown":
            page.locator("input[value='1']").check()
        elif keys == "Enter" and "button" not in target:
            page.locator("button.primary").click()
        else:
            place.click()


def with_touch(page: Page, steps: Steps) -> None:
    """Answer by touch, with scripts."""
    page.tap("body", position={"x": 1, "y": 1})
    with_clicks(page, steps)


@pytest.fixture(params=["keyboard", "touch", "no script"])
def person(
    request: pytest.FixtureRequest, chromium: Browser
) -> Generator[tuple[Page, Callable[[Page, Steps], None]]]:
    """A narrow page and the function that answers on it."""
    has_scripts, has_touch = request.param != "no script", request.param == "touch"
    context = chromium.new_context(
        viewport={"width": 320, "height": 640}, java_script_enabled=has_scripts, has_touch=has_touch
    )
    yield (
        context.new_page(),
        {"keyboard": with_keys, "touch": with_touch}.get(request.param, with_clicks),
    )
    context.close()


@pytest.mark.parametrize(("question", "steps", "answer"), EVERY_TYPE, ids=NAMES)
def test_every_type_is_answered(
    person: Person,
    disk: ConversationStore,
    elsewhere: Elsewhere[Any],
    question: Question[Any],
    steps: Steps,
    answer: Any,
) -> None:
    agent = agent_with(disk, asking(question))
    waiting = elsewhere(agent.run("Ship it.")).pending[0]
    page, do = person
    with serving(inbox(agent, user=ada)) as address:
        page.goto(f"{address}/")
        do(page, [("a.item", "Enter" if do is with_keys else "click")])
        page.wait_for_url(f"**/q/{waiting.id}")
        do(page, steps)
        expect(page.locator(".done")).to_contain_text("ada (web)")
    ((_, response),) = elsewhere(disk.read(waiting.conversation)).pairs()
    if isinstance(response, InquiryAnswered):
        assert (response.answer, type(response.answer)) == (answer, type(answer))
    else:
        assert isinstance(response, InquiryRedacted)


def test_partly_filled_form_survives_a_server_restart(
    page: Page, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    agent = agent_with(disk, asking_form(FORM))
    waiting = elsewhere(agent.run("Prepare the release.")).pending[0]
    with serving(inbox(agent, user=ada)) as address:
        page.goto(f"{address}/q/{waiting.id}")
        page.get_by_role("button", name="Yes").click()
        page.get_by_label("staging").check()
        page.get_by_role("button", name="Next").click()
        expect(page.locator(".place")).to_have_text("[3/4]")
    port = int(address.rsplit(":", 1)[1])
    with serving(inbox(agent, user=ada), port):
        page.get_by_label("support").check()
        page.get_by_label("sales").check()
        page.get_by_role("button", name="Next").click()
        expect(page.locator(".place")).to_have_text("[4/4]")
        page.get_by_role("button", name="Back").click()
        expect(page.get_by_label("sales")).to_be_checked()
        page.get_by_label("sales").uncheck()
        page.get_by_role("button", name="Next").click()
        page.get_by_role("button", name="Skip").click()
        expect(page.locator("dl.answers")).to_contain_text("support")
        page.get_by_role("button", name="Send").first.click()
        expect(page.locator(".done").first).to_contain_text("ada (web)")
        _ended(page, f"http://127.0.0.1:{port}/c/{waiting.conversation}")
    answers = {
        request.question_id: response.answer
        for request, response in elsewhere(disk.read(waiting.conversation)).pairs()
        if isinstance(response, InquiryAnswered)
    }
    assert answers == {"apply": True, "env": "staging", "teams": ["support"], "note": None}


def test_typed_secret_reaches_only_the_tool(
    page: Page, disk: ConversationStore, elsewhere: Elsewhere[Any], tmp_path: Path
) -> None:
    received: list[str] = []

    @mt.tool
    async def unlock(ctx: mt.ToolContext) -> str:
        """Unlock."""
        received.append((await ctx.ask(Question.secret("q", "Passphrase?"))).reveal())
        return "unlocked"

    agent = agent_with(disk, unlock)
    waiting = elsewhere(agent.run("Open it.")).pending[0]
    with serving(inbox(agent, user=ada)) as address:
        page.goto(f"{address}/q/{waiting.id}")
        page.locator("input#secret").fill("correct horse battery")
        page.get_by_role("button", name="Answer").click()
        expect(page.locator(".done")).to_contain_text("Secret entered")
        _ended(page, f"{address}/c/{waiting.conversation}")
        assert "correct horse" not in page.content()
        assert "correct horse" not in str(page.context.storage_state())
    assert received == ["correct horse battery"]
    assert b"correct horse" not in b"".join(
        path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )


def _ended(page: Page, url: str) -> None:
    """Wait for a turn to end."""
    for _ in range(100):
        page.goto(url)
        if page.get_by_text("completed").count():
            return
        time.sleep(0.1)
    pytest.fail("the turn did not end")

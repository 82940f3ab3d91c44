"""Text from tools and models stays text in a browser: it cannot run scripts, load resources,
ask for input or navigate.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request

import midturn as mt
from midturn.question.question import Question
from midturn.stores.store import ConversationStore
from midturn.web import inbox
from support.browser import Elsewhere
from support.hostile_markup import HOSTILE
from support.pages import ada, agent_with, asking
from support.serving import serving

_ELEMENTS = [
    "script",
    "iframe",
    "object",
    "embed",
    "img",
    "video",
    "audio",
    "svg",
    "style",
    "link",
    "meta",
    "base",
    "form",
    "input",
    "button",
    "select",
    "textarea",
]
_FOREIGN = ", ".join([*_ELEMENTS, "[style]", "[onerror]", "[onload]"])


class Watched:
    """A page that records its network requests."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._address = address
        self.context = browser.new_context()
        self.page: Page = self.context.new_page()
        self.remote: list[str] = []
        self.dialogs: list[str] = []
        self.context.on("request", self._requested)
        self.page.on("dialog", lambda dialog: self.dialogs.append(dialog.message))

    def open(self, path: str) -> None:
        """Open a page and unfold all details."""
        self.page.goto(f"{self._address}{path}")
        self.page.evaluate(
            "document.querySelectorAll('details').forEach(one => { one.open = true })"
        )

    def assert_nothing_happened(self) -> None:
        """Check that nothing unexpected was recorded."""
        assert self.page.evaluate("window.__ran") is None
        assert self.dialogs == []
        assert self.remote == []
        assert self.page.url.startswith(self._address)

    def _requested(self, request: Request) -> None:
        if not request.url.startswith(self._address):
            self.remote.append(request.url)


@pytest.mark.timeout(600)
def test_257_hostile_texts_stay_inert_in_contexts_and_messages(
    chromium: Browser, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    """Each text is the context of a question and a message of the model. The browser counts
    them all.
    """
    assert len(set(HOSTILE)) == 257

    @mt.tool
    async def ask_all(ctx: mt.ToolContext) -> str:
        """Ask."""
        for place, text in enumerate(HOSTILE):
            await ctx.ask(Question.boolean(f"q{place}", f"Question {place}?", context=text))
        return "\n\n".join(HOSTILE)

    replies = mt.ScriptedPrompter({f"ask_all.q{place}": True for place in range(len(HOSTILE))})
    said = [
        {"text": text, "calls": [{"name": "ask_all"}]} if place == 0 else {"text": text}
        for place, text in enumerate(HOSTILE[:2])
    ]
    agent = mt.Agent(
        mt.ScriptedModel(said),
        tools=[ask_all],
        store=disk,
        prompter=replies,
        limits={"shown": 1_000},
    )
    conversation = elsewhere(agent.run("\n\n".join(HOSTILE[:40]))).conversation
    with serving(inbox(disk, user=ada)) as address:
        watched = Watched(chromium, address)
        watched.open(f"/c/{conversation}")
        shown = watched.page.locator("[data-timeline] .context")
        assert shown.count() == 257
        assert watched.page.locator("[data-timeline]").locator(_FOREIGN).count() == 0
        links = watched.page.eval_on_selector_all(
            "[data-timeline] .context a", "all => all.map(one => one.protocol)"
        )
        assert set(links) <= {"https:"}
        watched.assert_nothing_happened()
        watched.context.close()


@pytest.mark.parametrize("place", range(0, 257, 16))
def test_hostile_texts_stay_inert_everywhere_on_a_question_page(
    chromium: Browser, disk: ConversationStore, elsewhere: Elsewhere[Any], place: int
) -> None:
    """The text is everywhere at once: question, context, options, descriptions, call, earlier
    messages.
    """
    text = HOSTILE[place]
    line = " ".join(text.split())
    options = [
        mt.SelectOption(line[:200] or "x", line[:200]),
        mt.SelectOption("second", text.replace("\x00", "")),
    ]
    question = Question.select("q", line[:300], options, context=text, allow_other=True)
    agent = agent_with(disk, asking(question), arguments=None)
    waiting = elsewhere(agent.run(text)).pending[0]
    with serving(inbox(disk, user=ada)) as address:
        watched = Watched(chromium, address)
        for path in ("/", f"/q/{waiting.id}", f"/c/{waiting.conversation}", "/c", "/stats"):
            watched.open(path)
            watched.assert_nothing_happened()
        watched.open(f"/q/{waiting.id}")
        assert (
            watched.page.locator("form").count() == 4
        )  # our forms: the answer, the reply, the reassignment, the end
        assert watched.page.locator("main script, main iframe, main img, main style").count() == 0
        watched.context.close()

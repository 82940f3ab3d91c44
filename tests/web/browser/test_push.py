"""Notifications in a browser whose page is closed: the texts its service worker shows, and its
buttons. Messages are sent through DevTools.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, TimeoutError as NotInTime, expect

import midturn as mt
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.store_access import Port
from midturn.stores.store import ConversationStore
from midturn.web.app import application, inbox
from midturn.web.app_state import AppState
from midturn.web.conversation_cache import ConversationCache
from midturn.web.keyring import Keyring
from midturn.web.push import Push, PushKeys, PushService, Subscription
from midturn.web.request_checks import CookieAccess, HostNames
from support.browser import Elsewhere, enter
from support.pages import agent_with, asking
from support.serving import free_port, serving

pytest.importorskip("py_vapid")
NAME = "qwertyuiopasdfgh.localhost"
_DELIVERIES = 3
_IS_SHOWN = (
    "tag => navigator.serviceWorker.ready.then((one) => one.getNotifications({ tag })).then((all)"
    " => all.length)"
)
SURE = mt.Question.boolean("q", "Deploy to production?")


class RecordingPushService(PushService):
    """Keeps messages unencrypted instead of sending them. `tests/web/test_push.py` tests the
    sending.
    """

    def __init__(self, keys: PushKeys) -> None:
        super().__init__(keys)
        self.texts: list[bytes] = []

    async def send(self, one: Subscription, text: bytes, topic: str) -> str:
        del one, topic
        self.texts.append(text)
        return ""


class PushPage:
    """A page with push, and a signed-in browser that allows notifications."""

    def __init__(self, context: BrowserContext, store: ConversationStore, directory: Path) -> None:
        self.port = free_port()
        self.address = f"http://{NAME}:{self.port}"
        self.keys = PushKeys(directory / "push.json", self.address)
        self.keyring = Keyring()
        access = CookieAccess(self.keyring, cookie=f"midturn-{self.port}", name="ada")
        self.given = RecordingPushService(self.keys)
        self.push = Push(self.keys, access, self.given)
        self.site = AppState(
            board=OpenQuestionList(Port(store)),
            library=ConversationCache(Port(store)),
            access=access,
            push=self.push,
            signs_in=True,
        )
        self.app = application(self.site, HostNames(own=frozenset({f"{NAME}:{self.port}"})))
        self.context = context
        context.grant_permissions(["notifications"], origin=self.address)
        self.page = context.new_page()

    def begin(self) -> None:
        """Sign in and start the service worker."""
        enter(self.page, f"{self.address}/enter?code={self.keyring.new_code()}")
        self.page.evaluate("navigator.serviceWorker.ready.then(() => null)")
        (sign_in,) = self.keyring.sign_ins()
        self.keys.browsers = [
            Subscription(
                endpoint="https://push.example.test/",
                p256dh="",
                auth="",
                user="ada",
                sign_in=sign_in.id,
            )
        ]

    def deliver(self, question: mt.OpenQuestion, elsewhere: Elsewhere[Any]) -> list[dict[str, Any]]:
        """Deliver the message about a question to the browser; return the notifications it
        shows.
        """
        assert elsewhere(self.push.tell(question, self.address)).failed == ()
        session = self.context.new_cdp_session(self.page)
        registrations: list[str] = []

        def updated(found: dict[str, Any]) -> None:
            registrations.extend(one["registrationId"] for one in found["registrations"])

        session.on("ServiceWorker.workerRegistrationUpdated", updated)
        session.send("ServiceWorker.enable")
        while not registrations:
            self.page.evaluate("null")
        sent = {
            "origin": self.address,
            "registrationId": registrations[-1],
            "data": self.given.texts[-1].decode(),
        }
        for _ in range(
            _DELIVERIES
        ):  # a busy browser may drop a message; a second one replaces the same notification
            session.send("ServiceWorker.deliverPushMessage", sent)
            with suppress(NotInTime):
                self.page.wait_for_function(_IS_SHOWN, arg=question.id)
                return self.shown()
        raise AssertionError(f"the browser showed no notification about {question.id}")

    def shown(self) -> list[dict[str, Any]]:
        """Return the visible notifications."""
        return self.page.evaluate(
            """async () => {
                const all = await (await navigator.serviceWorker.ready).getNotifications();
                const pairs = (actions) => actions.map(({ title, action }) => [title, action]);
                return all.map(({ title, body, tag, actions }) => ({ title, body, tag, actions: pairs(actions) }));
            }"""
        )

    def press(self, action: str) -> None:
        """Press a button of the notification, or the notification itself if `action` is empty."""
        worker = self.context.service_workers[0]
        worker.evaluate(
            """async (action) => {
                const [notification] = await registration.getNotifications();
                const done = [];
                const event = new NotificationEvent("notificationclick", { notification, action });
                event.waitUntil = (work) => done.push(work);
                dispatchEvent(event);
                await Promise.allSettled(done);
            }""",
            action,
        )


@pytest.fixture
def opened(chromium: Browser, disk: ConversationStore, tmp_path: Path) -> Generator[PushPage]:
    """A served page."""
    context = chromium.new_context(viewport={"width": 360, "height": 740})
    found = PushPage(context, disk, tmp_path)
    with serving(found.app, found.port):
        found.begin()
        yield found
    context.close()


def _deploy(
    store: ConversationStore, elsewhere: Elsewhere[Any], target: str = "staging"
) -> mt.OpenQuestion:
    @mt.tool(run="ask")
    def deploy(target: str) -> str:
        """Deploy."""
        return f"deployed to {target}"

    return elsewhere(
        agent_with(store, deploy, arguments={"target": target}).run("Ship it.")
    ).pending[0]


@pytest.mark.parametrize(("place", "state"), [(0, "approved"), (1, "skipped")])
def test_a_call_is_allowed_or_denied_in_the_notification(
    opened: PushPage, disk: ConversationStore, elsewhere: Elsewhere[Any], place: int, state: str
) -> None:
    question = _deploy(disk, elsewhere)
    (shown,) = opened.deliver(question, elsewhere)
    assert (shown["title"], shown["body"]) == ("deploy asks", 'deploy {"target": "staging"}')
    assert [title for title, _ in shown["actions"]] == ["Allow", "Deny"]
    opened.press(shown["actions"][place][1])
    assert opened.shown() == []
    assert elsewhere(disk.pending()) == []
    events = [event.to_json() for event in elsewhere(disk.read(question.conversation)).events]
    (decided,) = [
        event for event in events if event["type"] == "approval" and event.get("state") != "waiting"
    ]
    assert decided["state"] == state
    assert json.dumps(decided).count('"ada"') == 1


def test_unsuitable_question_opens_its_page(
    opened: PushPage, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    question = _deploy(disk, elsewhere, "x" * 200)
    (shown,) = opened.deliver(question, elsewhere)
    assert shown["actions"] == []
    assert len(elsewhere(disk.pending())) == 1


def test_late_button_shows_the_first_responder(
    opened: PushPage, disk: ConversationStore, elsewhere: Elsewhere[Any]
) -> None:
    question = elsewhere(agent_with(disk, asking(SURE)).run("Ship it.")).pending[0]
    (shown,) = opened.deliver(question, elsewhere)
    elsewhere(disk.answer(question.id, value=False, user="bo", via="cli"))
    opened.press(shown["actions"][0][1])
    (said,) = opened.shown()
    assert "bo" in said["body"]
    assert said["actions"] == []


def test_unreachable_server_is_shown_and_nothing_else_is_cached(
    chromium: Browser, disk: ConversationStore, tmp_path: Path, elsewhere: Elsewhere[Any]
) -> None:
    context = chromium.new_context()
    found = PushPage(context, disk, tmp_path)
    question = elsewhere(agent_with(disk, asking(SURE)).run("Ship it.")).pending[0]
    with serving(found.app, found.port):
        found.begin()
        (shown,) = found.deliver(question, elsewhere)
    found.press(shown["actions"][0][1])
    (said,) = found.shown()
    assert "cannot be reached" in said["body"]
    found.page.goto(f"{found.address}/c")
    expect(found.page.locator("h1")).to_have_text("The server cannot be reached")
    assert found.page.evaluate("caches.keys()") == []
    assert len(elsewhere(disk.pending())) == 1
    context.close()


def test_buttons_show_their_state(opened: PushPage) -> None:
    notify = opened.page.locator("[data-notify]")
    expect(notify).to_have_text("Notifications: off")
    notify.click()
    expect(notify).to_have_text(
        "Notifications: only while this tab is open"
    )  # no push service is reachable from here
    expect(notify).to_have_attribute("aria-pressed", "true")
    notify.click()
    expect(notify).to_have_text("Notifications: off")
    bell = opened.page.locator("[data-bell]")
    bell.click()
    expect(bell).to_have_text("Sound: on")


def test_the_page_can_be_installed(opened: PushPage) -> None:
    session = opened.context.new_cdp_session(opened.page)
    manifest = cast("dict[str, Any]", session.send("Page.getAppManifest"))
    assert manifest["errors"] == []
    assert json.loads(manifest["data"])["name"] == "midturn"
    assert manifest["url"] == f"{opened.address}/manifest.webmanifest"


def test_no_service_worker_without_push(page: Page, disk: ConversationStore) -> None:
    with serving(inbox(disk, user=lambda _: "ada")) as address:
        page.goto(f"{address}/")
        assert (
            page.evaluate("navigator.serviceWorker.getRegistrations().then((all) => all.length)")
            == 0
        )

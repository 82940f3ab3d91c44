"""Web push in Firefox, from a question to its notification. Firefox subscribes, decrypts and
shows it. `make test-firefox` installs it.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

pytest.importorskip("py_vapid")

import midturn as mt
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.store_access import Port
from midturn.stores.store import ConversationStore
from midturn.web.app import application
from midturn.web.app_state import AppState
from midturn.web.conversation_cache import ConversationCache
from midturn.web.keyring import Keyring
from midturn.web.push import Push, PushKeys, PushService, Subscription, encrypted
from midturn.web.request_checks import CookieAccess, HostNames
from support import firefox
from support.pages import agent_with
from support.serving import free_port, serving

pytestmark = [
    pytest.mark.real("Firefox"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(firefox.MISSING), reason=firefox.MISSING),
]
NAME = "qwertyuiopasdfgh.localhost"
_SHOWN = """(async () => {
    const all = await (await navigator.serviceWorker.ready).getNotifications();
    return all.map(({ title, body, tag, actions }) => ({ title, body, tag, actions: (actions ?? []).map(({ action }) => action) }));
})()"""


class DirectPushService(PushService):
    """Encrypts as usual and delivers to a push service without an address.
    `tests/web/test_push.py` tests the sending.
    """

    def __init__(self, keys: PushKeys, service: firefox.PushService) -> None:
        super().__init__(keys)
        self._service = service

    async def send(self, one: Subscription, text: bytes, topic: str) -> str:
        del topic
        await self._service.deliver(one.endpoint, encrypted(text, one))
        return ""


@pytest.mark.parametrize(("place", "state"), [(0, "approved"), (1, "skipped")])
def test_firefox_shows_notification_with_working_buttons(
    store: ConversationStore, tmp_path: Path, place: int, state: str
) -> None:
    asyncio.run(_played(store, tmp_path, place, state))


async def _played(store: ConversationStore, directory: Path, place: int, state: str) -> None:
    @mt.tool(run="ask")
    def deploy(target: str) -> str:
        """Deploy."""
        return f"deployed to {target}"

    port, service, keyring = free_port(), firefox.PushService(), Keyring()
    address = f"http://{NAME}:{port}"
    keys = PushKeys(directory / "push.json", address)
    access = CookieAccess(keyring, cookie=f"midturn-{port}", name="ada")
    push = Push(keys, access, DirectPushService(keys, service))
    site = AppState(
        board=OpenQuestionList(Port(store)),
        library=ConversationCache(Port(store)),
        access=access,
        push=push,
        signs_in=True,
    )
    names = HostNames(own=frozenset({f"{NAME}:{port}"}))
    asked = (
        await agent_with(store, deploy, arguments={"target": "staging"}).run("Ship it.")
    ).pending[0]
    with serving(application(site, names), port):
        async with service.serving(), firefox.firefox(directory / "profile", service) as browser:
            await browser.open(f"{address}/enter?code={keyring.new_code()}")
            await browser.evaluate("document.querySelector('form button').click()")
            await browser.until("document.querySelector('[data-notify]') !== null")
            await browser.evaluate("document.querySelector('[data-notify]').click()")
            await browser.until(
                "document.querySelector('[data-notify]').textContent === 'Notifications: on'"
            )
            assert (await push.tell(asked, address)).failed == ()
            (shown,) = await browser.until(_SHOWN)
            assert (shown["title"], shown["body"], shown["tag"]) == (
                "deploy asks",
                'deploy {"target": "staging"}',
                asked.id,
            )
            token = shown["actions"][place]
            sent = {
                "method": "POST",
                "headers": {"Content-Type": "application/json"},
                "body": json.dumps({"token": token}),
            }
            assert (
                await browser.evaluate(
                    f"fetch('/api/push/press', {json.dumps(sent)}).then((one) => one.status)"
                )
                == 200
            )
    events = [event.to_json() for event in (await store.read(asked.conversation)).events]
    (decided,) = [
        event for event in events if event["type"] == "approval" and event.get("state") != "waiting"
    ]
    assert decided["state"] == state

"""Web push: the messages a browser receives, its buttons, and who receives nothing. The push
service is a server of the tests.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
import uvicorn
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

import midturn as mt
from midturn.errors import AnswerError
from midturn.events.types import AnsweredBy, Approval, InquiryResponse
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.store_access import Port
from midturn.security.public_address import is_public
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.watching import StoreChange
from midturn.web.app import application
from midturn.web.app_state import AppState
from midturn.web.conversation_cache import ConversationCache
from midturn.web.keyring import SIGN_IN_SECONDS, Keyring, SignIn
from midturn.web.push import (
    Push,
    PushKeys,
    PushService,
    Subscription,
    encrypted,
    whole_text,
)
from midturn.web.request_checks import CookieAccess, HostNames, Visitor
from support.pages import HOST, OWN, agent_with, asking, browsing, wait_for
from support.served import Served
from support.serving import enter, free_port, loopback_request, running
from support.waiting import until

Vapid02: Any = pytest.importorskip("py_vapid").Vapid02
SHARED = "127.0.0.1:7478"
ADDRESS = f"http://{HOST}"
SURE = mt.Question.boolean("q", "Deploy to production?")


class Browser:
    """A subscribed browser. Only it can decrypt its messages."""

    def __init__(self, name: str = "ada", sign_in: str = "one") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._auth = b"0123456789abcdef"
        public = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.keys = {"p256dh": _base64(public), "auth": _base64(self._auth)}
        self.name, self.sign_in = name, sign_in

    def subscription(self, endpoint: str = "https://push.example.test/ada") -> dict[str, Any]:
        """Return the subscription as the browser's push manager creates it."""
        return {"endpoint": endpoint, "expirationTime": None, "keys": self.keys}

    def at(self, endpoint: str) -> Subscription:
        """Return the subscription as midturn stores it."""
        return Subscription(
            endpoint=endpoint,
            p256dh=self.keys["p256dh"],
            auth=self.keys["auth"],
            user=self.name,
            sign_in=self.sign_in,
        )

    def read(self, body: bytes) -> dict[str, Any]:
        """Decrypt a message."""
        salt, theirs, record = body[:16], body[21:86], body[86:]
        assert body[16:21] == b"\x00\x00\x10\x00\x41"
        assert len(record) <= 4_096
        ours = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        agreed = self._key.exchange(
            ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs)
        )
        secret = HKDF(SHA256(), 32, self._auth, b"WebPush: info\0" + ours + theirs).derive(agreed)
        key = HKDF(SHA256(), 16, salt, b"Content-Encoding: aes128gcm\0").derive(secret)
        nonce = HKDF(SHA256(), 12, salt, b"Content-Encoding: nonce\0").derive(secret)
        return json.loads(AESGCM(key).decrypt(nonce, record, None).removesuffix(b"\x02"))


class PushServer:
    """A push service. It returns `statuses` one after the other, then 201 for every message."""

    def __init__(self) -> None:
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[tuple[int, dict[str, str]]] = []
        self.tls = ssl.create_default_context()
        self.url = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        self.taken.append((dict(request.headers), await request.body()))
        status, headers = self.statuses.pop(0) if self.statuses else (201, {})
        await Response(b"", status, headers=headers)(scope, receive, send)


@contextmanager
def _serving(server: PushServer, directory: Path) -> Generator[None]:
    authority = trustme.CA()
    authority.configure_trust(server.tls)
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    issued = authority.issue_cert("localhost")
    issued.private_key_pem.write_to_path(key)
    issued.cert_chain_pems[0].write_to_path(certificate)
    config = uvicorn.Config(
        server,
        log_config=None,
        lifespan="off",
        ssl_certfile=str(certificate),
        ssl_keyfile=str(key),
        timeout_graceful_shutdown=1,
    )
    with socket.create_server(("127.0.0.1", 0)) as listener, running(config, listener):
        server.url = f"https://localhost:{listener.getsockname()[1]}/ada"
        yield


@pytest.fixture
def server(tmp_path: Path) -> Generator[PushServer]:
    """A push service on this machine."""
    served = PushServer()
    with _serving(served, tmp_path):
        yield served


@pytest.fixture
def keys(tmp_path: Path) -> PushKeys:
    """The keys of a new server."""
    return PushKeys(tmp_path / "push.json", ADDRESS)


class Clock:
    """A settable clock."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Page:
    """A page with push, and Ada's browser, which is signed in and subscribed."""

    def __init__(self, store: MemoryStore, keys: PushKeys, server: PushServer) -> None:
        self.clock = Clock()
        self.keyring = Keyring(self.clock)
        self.access = CookieAccess(self.keyring, cookie="midturn-7478", name="ada")
        self.browser = Browser()
        self.push = Push(keys, self.access, PushService(keys, may=lambda _: True, tls=server.tls))
        self.board = OpenQuestionList(Port(store))
        self.site = AppState(
            board=self.board,
            library=ConversationCache(Port(store)),
            access=self.access,
            push=self.push,
            signs_in=True,
        )
        self.server = server

    def signed_in(self, client: TestClient, host: str = HOST) -> None:
        """Sign a browser in and subscribe it."""
        client.post(f"http://{host}/enter", data={"code": self.keyring.new_code()}, headers=OWN)
        (sign_in,) = [
            one
            for one in self.keyring.sign_ins()
            if one.id not in {each.sign_in for each in self.push.keys.browsers}
        ]
        self.browser.sign_in = sign_in.id
        self.push.keys.browsers = [*self.push.keys.browsers, self.browser.at(self.server.url)]

    def told(self, question: mt.OpenQuestion) -> dict[str, Any]:
        """Send the notification of a question; return what the browser decrypts."""
        assert asyncio.run(self.push.tell(question, ADDRESS)).failed == ()
        return self.browser.read(self.server.taken[-1][1])


@pytest.fixture
def page(store: MemoryStore, keys: PushKeys, server: PushServer) -> Page:
    """The page under test."""
    return Page(store, keys, server)


@pytest.fixture
def client(page: Page) -> Generator[TestClient]:
    """Ada's browser."""
    names = HostNames(own=frozenset({HOST}), shared=frozenset({SHARED}))
    with browsing(application(page.site, names)) as browser:
        page.signed_in(browser)
        yield browser


def _press(client: TestClient, token: str) -> Any:
    return client.post("/api/push/press", json={"token": token}, headers={**OWN, "Accept": "*/*"})


def _run(
    store: MemoryStore, arguments: dict[str, Any] | None = None, **kept: Any
) -> mt.OpenQuestion:
    @mt.tool(run="ask", **kept)
    def deploy(target: str = "staging") -> str:
        """Deploy."""
        return f"deployed to {target}"

    return wait_for(agent_with(store, deploy, arguments=arguments or {"target": "staging"}))


# Sending
# --------------------------------------------------------------------------------------------------


def test_message_is_readable_only_by_its_browser_and_identifies_the_sender(
    keys: PushKeys, server: PushServer
) -> None:
    browser, other = Browser(), Browser()
    service = PushService(keys, may=lambda _: True, tls=server.tls)
    assert (
        asyncio.run(service.send(browser.at(server.url), b'{"title": "deploy asks"}', "topic"))
        == ""
    )
    ((headers, body),) = server.taken
    assert browser.read(body) == {"title": "deploy asks"}
    with pytest.raises(InvalidTag):
        other.read(body)
    assert Vapid02.verify(headers["authorization"])
    assert keys.public in headers["authorization"]
    assert (headers["ttl"], headers["urgency"], headers["topic"]) == ("86400", "high", "topic")


def test_encryption_matches_the_rfc_example() -> None:
    """RFC 8291, section 5."""
    browser = Subscription(
        endpoint="https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV",
        p256dh="BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        auth="BTBZMqHH6r4Tts7J_aSIgg",
        user=None,
    )
    number = base64.urlsafe_b64decode("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw=")
    key, salt = (
        ec.derive_private_key(int.from_bytes(number), ec.SECP256R1()),
        base64.urlsafe_b64decode("DGv6ra1nlYgDCS1FRnbzlw=="),
    )
    body = encrypted(b"When I grow up, I want to be a watermelon", browser, key=key, salt=salt)
    assert (
        _base64(body)
        == "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6"
        "cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


@pytest.mark.parametrize("status", [404, 410])
def test_expired_subscription_is_removed(keys: PushKeys, server: PushServer, status: int) -> None:
    there = Browser().at(server.url)
    keys.browsers = [there]
    server.statuses = [(status, {})]
    assert (
        asyncio.run(
            PushService(keys, may=lambda _: True, tls=server.tls).send(there, b"{}", "topic")
        )
        == ""
    )
    assert keys.browsers == []
    assert PushKeys(keys._file, ADDRESS).browsers == []


def test_busy_push_service_is_retried_and_then_given_up(keys: PushKeys, server: PushServer) -> None:
    service = PushService(keys, may=lambda _: True, tls=server.tls)
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    service._pause = pause
    server.statuses = [(429, {"Retry-After": "7"}), (503, {})]
    assert asyncio.run(service.send(Browser().at(server.url), b"{}", "topic")) == ""
    assert waited == [7.0, 5.0]
    server.statuses = [(429, {"Retry-After": "86400"})]
    assert asyncio.run(service.send(Browser().at(server.url), b"{}", "topic")) == "status 429"
    assert len(waited) == 2


def test_push_service_redirects_are_not_followed(keys: PushKeys, server: PushServer) -> None:
    server.statuses = [(307, {"Location": "https://localhost/admin"})]
    assert (
        asyncio.run(
            PushService(keys, may=lambda _: True, tls=server.tls).send(
                Browser().at(server.url), b"{}", "t"
            )
        )
        == "status 307"
    )
    assert len(server.taken) == 1


def test_no_push_to_local_addresses(keys: PushKeys, server: PushServer) -> None:
    service = PushService(keys, tls=server.tls)

    async def pause(_: float) -> None: ...

    service._pause = pause
    assert asyncio.run(service.send(Browser().at(server.url), b"{}", "topic")) == "unreachable"
    assert server.taken == []


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.7",
        "169.254.169.254",
        "::1",
        "fe80::1%eth0",
        "::ffff:10.0.0.1",
        "fd00::1",
        "x",
    ],
)
def test_local_and_private_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example.test/x",
        "https://127.0.0.1/x",
        "https://127.1/x",
        "https://2130706433/x",
        "https://[::1]/x",
        "https://[::ffff:127.0.0.1]/x",
        "https://localhost/x",
        "https://user:password@push.example.test/x",
        "https://push.example.test:99999/x",
        "https://push.example.test/\n",
        "https://push.example.test/" + "x" * 1_000,
        "file:///etc/passwd",
        "",
        None,
    ],
)
def test_endpoint_must_be_an_https_host_name(keys: PushKeys, endpoint: str | None) -> None:
    with pytest.raises(AnswerError, match="push service"):
        keys.add({**Browser().subscription(), "endpoint": endpoint}, Visitor("ada"))
    assert keys.browsers == []


def test_key_of_wrong_length_is_refused(keys: PushKeys) -> None:
    with pytest.raises(AnswerError, match="65 bytes"):
        keys.add(
            {**Browser().subscription(), "keys": {"p256dh": "AAAA", "auth": "AAAA"}}, Visitor("ada")
        )
    with pytest.raises(AnswerError, match="65 bytes"):
        keys.add({**Browser().subscription(), "keys": None}, Visitor("ada"))


def test_key_that_is_not_on_the_curve_is_refused(keys: PushKeys) -> None:
    """Otherwise it would fail only when a message is sent."""
    given = Browser().subscription()
    given["keys"] = {**given["keys"], "p256dh": _base64(b"\x04" + b"\x01" * 64)}
    with pytest.raises(AnswerError, match="must be a public key on the curve P-256"):
        keys.add(given, Visitor("ada"))


def test_sender_key_file_is_private_and_a_new_name_has_no_subscriptions(tmp_path: Path) -> None:
    file = tmp_path / "push.json"
    first = PushKeys(file, ADDRESS)
    first.add(
        Browser().subscription(),
        Visitor("ada", SignIn(id="one", device="", needs_key=False, begun=0, used=0)),
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = PushKeys(file, ADDRESS)
    assert again.public == first.public
    assert again.browsers == first.browsers
    assert "p256dh" not in repr(again.browsers)
    assert PushKeys(file, "http://another.localhost:7478").browsers == []


def test_at_most_forty_subscriptions_are_kept(keys: PushKeys) -> None:
    for number in range(42):
        keys.add(Browser().subscription(f"https://push.example.test/{number}"), Visitor("ada"))
    assert len(keys.browsers) == 40
    assert keys.browsers[-1].endpoint.endswith("/41")
    assert len(PushKeys(keys._file, ADDRESS).browsers) == 40


# Contents of a notification
# --------------------------------------------------------------------------------------------------


def test_completely_shown_call_has_allow_and_deny_buttons(
    store: MemoryStore, page: Page, client: TestClient
) -> None:
    question = _run(store)
    told = page.told(question)
    assert told["title"] == "deploy asks"
    assert told["body"] == 'deploy {"target": "staging"}'
    assert [one["title"] for one in told["actions"]] == ["Allow", "Deny"]
    assert all(len(one["action"]) == 22 for one in told["actions"])
    assert _press(client, told["actions"][0]["action"]).status_code == 200
    events = store.read_sync(question.conversation).events
    (approval,) = [
        event for event in events if isinstance(event, Approval) and event.state != "waiting"
    ]
    assert approval.answered_by
    assert (approval.state, approval.answered_by.user, approval.answered_by.via) == (
        "approved",
        "ada",
        "web",
    )


def test_invisible_characters_in_a_call_are_shown(
    store: MemoryStore, page: Page, client: TestClient
) -> None:
    del client
    assert (
        page.told(_run(store, {"target": "stag\u202eing\u200b"}))["body"]
        == 'deploy {"target": "stag⟨U+202E⟩ing⟨U+200B⟩"}'
    )


def test_long_call_has_no_buttons(store: MemoryStore, page: Page, client: TestClient) -> None:
    del client
    told = page.told(_run(store, {"target": "x" * 120}))
    assert "actions" not in told
    assert "x" * 120 not in told["body"]


@pytest.mark.parametrize(
    "question",
    [
        mt.Question.text("q", "Which?"),
        mt.Question.secret("q", "The password?"),
        mt.Question.select("q", "Which?", ["a", "b"]),
        mt.Question.boolean("q", "Sure?", context="```diff\n-a\n+b\n```"),
        mt.Question.boolean("q", "Sure? " * 30),
    ],
)
def test_complex_or_truncated_questions_have_no_buttons(
    store: MemoryStore, question: mt.Question[Any]
) -> None:
    assert whole_text(wait_for(agent_with(store, asking(question)))) is None


# Buttons
# --------------------------------------------------------------------------------------------------


def test_each_button_is_valid_once(store: MemoryStore, page: Page, client: TestClient) -> None:
    question = wait_for(agent_with(store, asking(SURE)))
    yes, no = (one["action"] for one in page.told(question)["actions"])
    assert _press(client, no).status_code == 200
    for token in (no, yes):
        response = _press(client, token)
        assert (response.status_code, response.json()["error"]) == (410, "closed")
    (answer,) = [
        event
        for event in store.read_sync(question.conversation).events
        if isinstance(event, InquiryResponse)
    ]
    assert answer.to_json()["answer"] is False


def test_button_of_another_sign_in_is_refused_here_only(
    store: MemoryStore, page: Page, client: TestClient
) -> None:
    question = wait_for(agent_with(store, asking(SURE)))
    yes = page.told(question)["actions"][0]["action"]
    with browsing(application(page.site, HostNames(own=frozenset({HOST})))) as other:
        assert _press(other, yes).status_code == 401
        other.post("/enter", data={"code": page.keyring.new_code()}, headers=OWN)
        assert _press(other, yes).status_code == 410
    assert len(store.pending_sync()) == 1
    assert _press(client, yes).status_code == 200


def test_late_press_shows_the_first_responder(
    store: MemoryStore, page: Page, client: TestClient
) -> None:
    question = wait_for(agent_with(store, asking(SURE)))
    yes = page.told(question)["actions"][0]["action"]
    store.answer_sync(question.id, value=False, user="bo", via="cli")
    response = _press(client, yes)
    assert response.status_code == 409
    assert "bo" in response.json()["message"]


def test_other_origin_cannot_press_buttons(
    store: MemoryStore, page: Page, client: TestClient
) -> None:
    yes = page.told(wait_for(agent_with(store, asking(SURE))))["actions"][0]["action"]
    sent = {"Sec-Fetch-Site": "same-site", "Origin": "http://evil.localhost"}
    assert client.post("/api/push/press", json={"token": yes}, headers=sent).status_code == 403
    assert len(store.pending_sync()) == 1


@pytest.mark.parametrize("body", [{}, {"token": None}, {"token": ["x"]}, {"token": "x" * 100_000}])
def test_invalid_button_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    assert client.post("/api/push/press", json=body, headers=OWN).status_code == 410


# Browsers and users
# --------------------------------------------------------------------------------------------------


def test_sign_out_stops_messages_and_invalidates_buttons(
    store: MemoryStore, page: Page, client: TestClient
) -> None:
    question = wait_for(agent_with(store, asking(SURE)))
    yes = page.told(question)["actions"][0]["action"]
    sent = len(page.server.taken)
    client.post("/leave", headers=OWN, data={})
    assert page.push.keys.browsers == []
    assert asyncio.run(page.push.tell(question, ADDRESS)).failed == ()
    assert len(page.server.taken) == sent
    page.signed_in(client)
    assert _press(client, yes).status_code == 410
    assert len(store.pending_sync()) == 1


def test_expired_sign_in_hides_the_question(
    store: MemoryStore, page: Page, client: TestClient
) -> None:
    del client
    page.clock.now += SIGN_IN_SECONDS + 1
    told = page.told(_run(store))
    assert told["body"] == "A question is open. Sign in to see it."
    assert "actions" not in told
    assert "deploy" not in json.dumps(told)


def test_questions_of_other_users_are_not_sent(
    store: MemoryStore, page: Page, client: TestClient
) -> None:
    del client
    people = mt.People(ask=["bo"], only=True)
    question = wait_for(agent_with(store, asking(mt.Question.boolean("q", "Sure?", people=people))))
    asyncio.run(page.push.tell(question, ADDRESS))
    assert page.server.taken == []


def test_answer_elsewhere_replaces_the_notification(
    store: MemoryStore, page: Page, client: TestClient
) -> None:
    del client
    question = wait_for(agent_with(store, asking(SURE)))
    page.told(question)

    async def answered() -> None:
        others = len(page.board.listeners)
        running = asyncio.create_task(page.push.run(page.board))
        await until(lambda: len(page.board.listeners) > others)
        by = AnsweredBy("user", via="cli", user="bo")
        page.board.listeners[-1](
            StoreChange(
                kind="answered", conversation=question.conversation, id=question.id, answered_by=by
            )
        )
        await until(lambda: len(page.server.taken) == 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(answered())
    (first, _), (second, body) = page.server.taken
    told = page.browser.read(body)
    assert (told["tag"], told["body"], told["silent"]) == (question.id, "Answered by bo.", True)
    assert "actions" not in told
    assert first["topic"] == second["topic"]


# Availability
# --------------------------------------------------------------------------------------------------


def test_browser_subscribes_and_unsubscribes_under_the_page_name(
    page: Page, client: TestClient
) -> None:
    sent = {"subscription": Browser().subscription()}
    assert client.post("/api/push", json=sent, headers=OWN).status_code == 200
    assert page.push.keys.browsers[-1].user == "ada"
    assert page.push.keys.browsers[-1].sign_in == page.browser.sign_in
    response = client.post(
        "/api/push", json={"forget": "https://push.example.test/ada"}, headers=OWN
    )
    assert response.status_code == 200
    assert [one.endpoint for one in page.push.keys.browsers] == [page.server.url]
    assert (
        client.post(
            "/api/push", json={"subscription": {"endpoint": "https://10.0.0.1/"}}, headers=OWN
        ).status_code
        == 422
    )
    assert client.post("/api/push", json={}, headers=OWN).status_code == 422


def test_push_is_refused_under_shared_names(page: Page, client: TestClient) -> None:
    assert page.push.keys.public in client.get("/").text
    entered = client.post(
        f"http://{SHARED}/enter", data={"code": page.keyring.new_code()}, headers=OWN
    ).text
    key = entered.partition('data-key="')[2].partition('"')[0]
    there = {**OWN, "X-Midturn-Key": key}
    shown = client.get(f"http://{SHARED}/", headers=there).text
    assert "Inbox" in shown
    assert page.push.keys.public not in shown
    assert "manifest" not in shown
    sent = {"subscription": Browser().subscription()}
    assert client.post(f"http://{SHARED}/api/push", json=sent, headers=there).status_code == 404


def test_push_is_offered_under_the_own_name_with_persistent_keys(tmp_path: Path) -> None:
    shown: list[str] = []
    port = free_port()
    for _ in range(2):
        served = Served(tmp_path, (), port)
        try:
            entrance, host = loopback_request(served.address())
            with httpx2.Client(
                headers={**OWN, **host, "Accept": "text/html"},
                base_url=f"http://127.0.0.1:{port}",
                timeout=120,
            ) as client:
                enter(client, entrance)
                shown.append(client.get("/").text.partition('data-push="')[2].partition('"')[0])
                assert client.get("/worker.js").status_code == 200
        finally:
            served.end()
    assert len(shown[0]) == 87
    assert shown[0] == shown[1]
    kept = tmp_path / "XDG_STATE_HOME" / "midturn" / "serve" / str(port) / "push.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_subscription_requires_sign_in(page: Page) -> None:
    with browsing(application(page.site, HostNames(own=frozenset({HOST})))) as stranger:
        assert (
            stranger.post(
                "/api/push", json={"subscription": Browser().subscription()}, headers=OWN
            ).status_code
            == 401
        )
        manifest = stranger.get("/manifest.webmanifest").json()
        assert (manifest["display"], manifest["start_url"]) == ("standalone", "./")
        assert all(stranger.get(f"/{icon['src']}").status_code == 200 for icon in manifest["icons"])
        worker = stranger.get("/worker.js")
        assert worker.headers["content-type"].startswith("text/javascript")
    assert page.push.keys.browsers == []


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

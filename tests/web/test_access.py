"""Access control: sign-in, host names, origins and response headers. Requests are those of an
attacker or of a malicious page.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any, cast

import pytest
from starlette.testclient import TestClient
from starlette.types import Message

import midturn as mt
from midturn.inbox.open_questions import OpenQuestionList
from midturn.inbox.store_access import Port
from midturn.question.question import Question
from midturn.stores.memory_conversations import MemoryStore
from midturn.web.app import application, inbox
from midturn.web.app_state import AppState
from midturn.web.conversation_cache import ConversationCache
from midturn.web.keyring import CODE_SECONDS, SIGN_IN_SECONDS, Keyring
from midturn.web.request_checks import (
    MAX_BODY_BYTES,
    CookieAccess,
    HeaderAccess,
    HostNames,
    is_shared,
)
from support.pages import HOST, OWN, ada, agent_with, asking, browsing, send, wait_for

COOKIE = "midturn-7478"
SHARED = frozenset({"127.0.0.1:7478", "localhost:7478", "[::1]:7478"})
NAMES = HostNames(own=frozenset({HOST}), shared=SHARED)


class Clock:
    """A settable clock."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keyring(clock: Clock) -> Keyring:
    """The server's sign-ins and codes."""
    return Keyring(clock)


@pytest.fixture
def waiting(store: MemoryStore) -> mt.OpenQuestion:
    """An open question."""
    return wait_for(agent_with(store, asking(Question.boolean("q", "Sure?"))))


@pytest.fixture
def client(store: MemoryStore, keyring: Keyring, waiting: mt.OpenQuestion) -> Generator[TestClient]:
    """A browser that is not signed in."""
    del waiting
    site = AppState(
        board=OpenQuestionList(Port(store)),
        library=ConversationCache(Port(store)),
        access=CookieAccess(keyring, cookie=COOKIE, name="ada"),
        signs_in=True,
    )
    with browsing(application(site, NAMES)) as browser:
        yield browser


@pytest.fixture
def signed_in(client: TestClient, keyring: Keyring) -> TestClient:
    """A browser that is signed in."""
    assert client.post("/enter", data={"code": keyring.new_code()}, headers=OWN).status_code == 303
    return client


# Codes and sign-ins
# --------------------------------------------------------------------------------------------------


def test_code_is_exchanged_for_a_cookie_and_removed_from_the_url(
    client: TestClient, keyring: Keyring
) -> None:
    entered = client.post("/enter", data={"code": keyring.new_code()}, headers=OWN)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/"))
    assert "Secure" not in cookie
    assert client.get("/").status_code == 200


def test_under_tls_the_cookie_is_secure(store: MemoryStore, keyring: Keyring) -> None:
    site = AppState(
        board=OpenQuestionList(Port(store)),
        library=ConversationCache(Port(store)),
        access=CookieAccess(keyring, cookie="__Host-midturn-7478", secure=True),
        signs_in=True,
    )
    with browsing(application(site, NAMES)) as browser:
        assert (
            "Secure"
            in browser.post("/enter", data={"code": keyring.new_code()}, headers=OWN).headers[
                "set-cookie"
            ]
        )


def test_code_is_valid_once(client: TestClient, keyring: Keyring) -> None:
    code = keyring.new_code()
    assert client.post("/enter", data={"code": code}, headers=OWN).status_code == 303
    client.cookies.clear()
    assert client.post("/enter", data={"code": code}, headers=OWN).status_code == 401
    assert client.get("/").status_code == 401


def test_code_is_valid_for_five_minutes(client: TestClient, keyring: Keyring, clock: Clock) -> None:
    code = keyring.new_code()
    clock.now += CODE_SECONDS + 1
    assert client.post("/enter", data={"code": code}, headers=OWN).status_code == 401


def test_a_code_may_be_typed_in_any_case_and_without_its_lines(
    client: TestClient, keyring: Keyring
) -> None:
    typed = keyring.new_code().replace("-", " ").lower()
    assert client.post("/enter", data={"code": typed}, headers=OWN).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Purpose": "prefetch"},
        {"Sec-Fetch-Site": "cross-site"},
        {"User-Agent": "TelegramBot (like TwitterBot)"},
    ],
    ids=["a reader", "prefetch", "a link in another page", "a link preview"],
)
def test_opening_an_address_redeems_no_code(
    client: TestClient, keyring: Keyring, headers: dict[str, str]
) -> None:
    code = keyring.new_code()
    address = f"/enter?code={code}&to=/c"
    assert "set-cookie" not in client.head(address, headers=headers).headers
    assert client.get(address, headers=headers).status_code == 200
    opened = client.get(address, headers=headers)
    assert "set-cookie" not in opened.headers
    assert keyring.sign_ins() == []
    (form,) = re.findall(
        r'<form method="post" action="/enter">(.*?)</form>', opened.text, re.DOTALL
    )
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    assert fields == {"code": code, "to": "/c"}
    assert "<script" not in opened.text
    assert (
        client.post("/enter", data=fields, headers={"Sec-Fetch-Site": "cross-site"}).status_code
        == 403
    )
    entered = client.post("/enter", data=fields, headers=OWN)
    assert (entered.status_code, entered.headers["location"]) == (303, "/c")
    assert len(keyring.sign_ins()) == 1


def test_sign_in_expires_without_use(signed_in: TestClient, clock: Clock) -> None:
    for _ in range(3):
        clock.now += SIGN_IN_SECONDS * 0.9
        assert signed_in.get("/").status_code == 200
    clock.now += SIGN_IN_SECONDS + 1
    assert signed_in.get("/").status_code == 401


def test_sign_out_ends_the_session(signed_in: TestClient) -> None:
    token = signed_in.cookies[COOKIE]
    assert signed_in.post("/leave", headers=OWN).status_code == 200
    assert signed_in.get("/", headers={"Cookie": f"{COOKIE}={token}"}).status_code == 401


def test_keys_are_neither_stored_nor_printed(signed_in: TestClient, keyring: Keyring) -> None:
    """Sign-ins are kept in the server's memory. Writing a file cannot create one."""
    entered = keyring.redeem(keyring.new_code())
    assert entered is not None
    assert entered.token not in repr(entered)
    assert entered.key not in f"{entered} {keyring.sign_ins()} {vars(keyring)}"
    assert signed_in.cookies[COOKIE] not in f"{vars(keyring)}"


def test_input_of_an_expired_sign_in_can_be_sent_again(
    signed_in: TestClient, waiting: mt.OpenQuestion, clock: Clock
) -> None:
    clock.now += SIGN_IN_SECONDS + 1
    page = signed_in.post(
        f"/q/{waiting.id}",
        data={"answer": "yes", "reason": 'a "long" one', "secret": "hunter2"},
        headers=OWN,
    )
    assert page.status_code == 401
    assert 'name="reason" value="a &#34;long&#34; one"' in page.text
    assert f'action="/q/{waiting.id}"' in page.text
    assert "hunter2" not in page.text


def test_external_link_is_reloaded_and_then_requires_sign_in(
    client: TestClient, waiting: mt.OpenQuestion
) -> None:
    """A strict cookie is not sent with a link from a message, but it is sent when the page
    itself reloads its address.
    """
    first = client.get(f"/q/{waiting.id}", headers={"Sec-Fetch-Site": "cross-site"})
    assert (first.status_code, 'http-equiv="refresh"' in first.text, "Sure?" in first.text) == (
        200,
        True,
        False,
    )
    again = client.get(f"/q/{waiting.id}", headers={"Sec-Fetch-Site": "same-origin"})
    assert (again.status_code, "midturn serve code" in again.text) == (401, True)


# Names, origins, bodies
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1:7478.evil.example",
        "localhost:7478@evil.example",
        "0.0.0.0:7478",
        "",
        "127.1:7478",
    ],
)
def test_a_page_is_not_shown_under_another_name(signed_in: TestClient, host: str) -> None:
    assert signed_in.get("/", headers={"Host": host}).status_code == 421


def test_page_is_shown_under_its_own_name(signed_in: TestClient) -> None:
    shown = signed_in.get("/")
    assert (shown.status_code, "Sure?" in shown.text) == (200, True)


# Names shared with other servers
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def at_an_address(client: TestClient) -> TestClient:
    """A browser that uses the page by IP address. Its cookies are sent to every port of this
    machine.
    """
    client.headers["Host"] = "127.0.0.1:7478"
    return client


def entered_at(client: TestClient, keyring: Keyring, **fields: str) -> str:
    """Sign in there; return the key that the page holds."""
    shell = client.post("/enter", data={"code": keyring.new_code(), **fields}, headers=OWN)
    assert shell.status_code == 200
    return re.findall(r'data-key="([^"]{20,})"', shell.text)[0]


def test_by_ip_address_the_cookie_opens_only_an_empty_page(
    at_an_address: TestClient, keyring: Keyring, waiting: mt.OpenQuestion
) -> None:
    key = {"X-Midturn-Key": entered_at(at_an_address, keyring)}
    for path in ("/", f"/q/{waiting.id}", "/c", "/stats", "/devices"):
        shell = at_an_address.get(path)
        assert (
            shell.status_code,
            "data-shell" in shell.text,
            "Sure?" in shell.text,
            key["X-Midturn-Key"] in shell.text,
        ) == (
            200,
            True,
            False,
            False,
        )
        assert at_an_address.get(path, headers={"X-Midturn-Key": ""}).status_code == 401
        assert "data-shell" not in at_an_address.get(path, headers=key).text
    assert "Sure?" in at_an_address.get(f"/q/{waiting.id}", headers=key).text
    for path in (
        "/api/questions",
        f"/api/questions/{waiting.id}",
        "/api/events",
        "/api/conversations",
    ):
        assert at_an_address.get(path).status_code == 401
    body = {"value": True}
    assert (
        at_an_address.post(f"/q/{waiting.id}", data={"answer": "yes"}, headers=OWN).status_code
        == 401
    )
    assert at_an_address.post("/leave", headers=OWN).status_code == 401
    assert at_an_address.post(f"/api/questions/{waiting.id}/answer", json=body).status_code == 401
    assert (
        at_an_address.post(
            f"/api/questions/{waiting.id}/answer", json=body, headers=key
        ).status_code
        == 200
    )


def test_ip_address_cookie_is_invalid_under_the_own_name(
    at_an_address: TestClient, keyring: Keyring
) -> None:
    """A server that received the cookie and knows the name still has only the cookie."""
    entered_at(at_an_address, keyring)
    token = at_an_address.cookies[COOKIE]
    headers = {"Host": HOST, "Cookie": f"{COOKIE}={token}"}
    assert at_an_address.get("/", headers=headers).status_code == 401
    assert at_an_address.get("/", headers={**headers, "X-Midturn-Key": token}).status_code == 401


def test_own_name_cookie_is_invalid_by_ip_address(signed_in: TestClient) -> None:
    shell = signed_in.get("/api/questions", headers={"Host": "127.0.0.1:7478"})
    assert shell.status_code == 401


def test_by_ip_address_without_scripts_each_answer_needs_a_code(
    at_an_address: TestClient, keyring: Keyring, waiting: mt.OpenQuestion, store: MemoryStore
) -> None:
    opened = at_an_address.post(
        "/enter",
        data={"code": keyring.new_code(), "to": f"/q/{waiting.id}", "bare": "yes"},
        headers=OWN,
    )
    assert (opened.status_code, "Sure?" in opened.text, "set-cookie" in opened.headers) == (
        200,
        True,
        False,
    )
    (key,) = set(re.findall(r'name="midturn_key" value="([^"]{20,})"', opened.text))
    assert (
        at_an_address.post(f"/q/{waiting.id}", data={"answer": "yes"}, headers=OWN).status_code
        == 401
    )
    assert store.pending_sync()
    assert (
        at_an_address.post(
            f"/q/{waiting.id}", data={"answer": "yes", "midturn_key": key}, headers=OWN
        ).status_code
        == 303
    )
    assert not store.pending_sync()
    assert at_an_address.get("/").status_code == 401


@pytest.mark.parametrize(
    ("host", "shared"),
    [
        ("127.0.0.1:7478", True),
        ("[::1]:7478", True),
        ("localhost", True),
        ("192.0.2.7:443", True),
        ("abc.localhost:7478", False),
        ("questions.example.org", False),
    ],
)
def test_ip_addresses_are_shared_names(host: str, shared: bool) -> None:  # noqa: FBT001  a row of a table
    assert is_shared(host) is shared


# Signing out
# --------------------------------------------------------------------------------------------------


def test_a_device_is_signed_out_from_another(client: TestClient, keyring: Keyring) -> None:
    other = keyring.redeem(keyring.new_code(), "An old <telephone>")
    assert other is not None
    client.post(
        "/enter", data={"code": keyring.new_code()}, headers={**OWN, "User-Agent": "This one"}
    )
    page = client.get("/devices").text
    assert "An old &lt;telephone&gt;" in page
    assert "This one" in page
    other_id = next(one.id for one in keyring.sign_ins() if one.device != "This one")
    assert client.post("/leave", data={"device": other_id}, headers=OWN).status_code == 303
    assert keyring.by_token(other.token) is None
    assert client.get("/").status_code == 200


def test_every_page_links_to_sign_out(signed_in: TestClient, waiting: mt.OpenQuestion) -> None:
    for path in ("/", "/c", "/stats", f"/q/{waiting.id}"):
        assert 'action="/leave"' in signed_in.get(path).text


def test_sign_in_continues_to_the_linked_page(
    client: TestClient, keyring: Keyring, waiting: mt.OpenQuestion
) -> None:
    asked = client.get(f"/q/{waiting.id}")
    assert f'name="to" value="/q/{waiting.id}"' in asked.text
    entered = client.post(
        "/enter", data={"code": keyring.new_code(), "to": f"/q/{waiting.id}"}, headers=OWN
    )
    assert entered.headers["location"] == f"/q/{waiting.id}"


def test_search_survives_sign_in(client: TestClient, keyring: Keyring) -> None:
    asked = client.get("/c?q=release+2.4&label=team%2Fa")
    assert 'name="to" value="/c?q=release+2.4&amp;label=team%2Fa"' in asked.text
    entered = client.post(
        "/enter",
        data={"code": keyring.new_code(), "to": "/c?q=release+2.4&label=team%2Fa"},
        headers=OWN,
    )
    assert entered.headers["location"] == "/c?q=release+2.4&label=team%2Fa"


def test_used_code_is_not_in_later_urls(client: TestClient) -> None:
    refused = client.get("/enter?code=AAAA-BBBB-CCCC-DDDD")
    assert refused.status_code == 401
    assert "AAAA" not in refused.text


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "/\\evil.example", "/leave", "x", "/q\r\nX: y"]
)
def test_sign_in_never_redirects_to_another_site(
    client: TestClient, keyring: Keyring, to: str
) -> None:
    assert (
        client.post("/enter", data={"code": keyring.new_code(), "to": to}, headers=OWN).headers[
            "location"
        ]
        == "/"
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:7479"},
        {"Origin": "http://localhost"},
        {"Origin": "file://"},
        {"Origin": f"ftp://{HOST}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "null"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Origin": f"http://{HOST}"},
        {},
    ],
)
def test_cross_origin_write_is_refused(
    signed_in: TestClient, store: MemoryStore, waiting: mt.OpenQuestion, headers: Mapping[str, str]
) -> None:
    assert (
        signed_in.post(f"/q/{waiting.id}", data={"answer": "yes"}, headers=headers).status_code
        == 403
    )
    assert store.pending_sync()


@pytest.mark.parametrize(
    "headers", [OWN, {"Sec-Fetch-Site": "same-origin"}, {"Origin": f"http://{HOST}"}]
)
def test_same_origin_write_is_accepted(
    signed_in: TestClient, waiting: mt.OpenQuestion, headers: Mapping[str, str]
) -> None:
    assert (
        signed_in.post(f"/q/{waiting.id}", data={"answer": "yes"}, headers=headers).status_code
        == 303
    )


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://public.example"}, 303),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://public.example"}, 403),
        ({"Origin": "https://public.example"}, 403),
    ],
)
def test_mounted_page_behind_a_renaming_proxy_uses_the_browsers_origin_header(
    store: MemoryStore, waiting: mt.OpenQuestion, headers: Mapping[str, str], status: int
) -> None:
    with browsing(inbox(store, user=ada)) as client:
        assert (
            client.post(f"/q/{waiting.id}", data={"answer": "yes"}, headers=headers).status_code
            == status
        )


def test_cross_site_form_cannot_use_the_json_api(
    signed_in: TestClient, waiting: mt.OpenQuestion
) -> None:
    """A form can be sent as text that is valid JSON. Its origin and its content type reveal
    it.
    """
    path, body = f"/api/questions/{waiting.id}/answer", b'{"value": true}'
    assert (
        signed_in.post(
            path, content=body, headers={"Content-Type": "text/plain", "Origin": "null"}
        ).status_code
        == 403
    )
    assert (
        signed_in.post(
            path, content=body, headers={"Content-Type": "text/plain", **OWN}
        ).status_code
        == 415
    )
    assert (
        signed_in.post(path, content=body, headers={"Content-Type": "application/json"}).status_code
        == 200
    )


@pytest.mark.parametrize(
    "path",
    ["/", "/q/x", "/c", "/c/x", "/stats", "/api/questions", "/api/events", "/api/conversations"],
)
def test_requests_without_a_cookie_see_nothing(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 401
    assert client.get(path, headers={"Cookie": f"{COOKIE}=invented"}).status_code == 401
    assert client.get(path, headers={"Authorization": "Bearer invented"}).status_code == 401


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(
    signed_in: TestClient, waiting: mt.OpenQuestion, method: str
) -> None:
    assert signed_in.request(method, f"/q/{waiting.id}", headers=OWN).status_code == 405


@pytest.mark.parametrize(
    "media_type", ["multipart/form-data; boundary=x", "text/plain", "", "application/xml"]
)
def test_body_with_another_content_type_is_refused(
    signed_in: TestClient, waiting: mt.OpenQuestion, media_type: str
) -> None:
    sent = signed_in.post(
        f"/q/{waiting.id}", content=b"answer=yes", headers={**OWN, "Content-Type": media_type}
    )
    assert sent.status_code == 415


def test_numeric_user_names_are_rejected_early(store: MemoryStore) -> None:
    app = inbox(store, user=lambda _: cast("Any", 42))

    with (
        TestClient(app) as client,
        pytest.raises(TypeError, match=r"`user\(request\)` must be a string, not 42"),
    ):
        client.get("/")


def test_compressed_body_is_refused(signed_in: TestClient, waiting: mt.OpenQuestion) -> None:
    headers = {
        **OWN,
        "Content-Type": "application/x-www-form-urlencoded",
        "Content-Encoding": "gzip",
    }
    assert (
        signed_in.post(f"/q/{waiting.id}", content=b"answer=yes", headers=headers).status_code
        == 415
    )


def test_large_body_is_refused_with_any_length_header(
    signed_in: TestClient, waiting: mt.OpenQuestion
) -> None:
    headers = {**OWN, "Content-Type": "application/x-www-form-urlencoded"}
    large = b"answer=" + b"x" * MAX_BODY_BYTES
    assert signed_in.post(f"/q/{waiting.id}", content=large, headers=headers).status_code == 413
    assert (
        signed_in.post(f"/q/{waiting.id}", content=iter([large]), headers=headers).status_code
        == 413
    )  # in chunks, without a length
    refused = signed_in.post(
        f"/api/questions/{waiting.id}/answer",
        content=large,
        headers={**headers, "Content-Type": "application/json"},
    )
    assert (refused.status_code, refused.json()["error"]) == (413, "too_large")
    assert (
        signed_in.post(
            f"/q/{waiting.id}", content=b"x", headers={**headers, "Content-Length": "9" * 5_000}
        ).status_code
        == 413
    )


def test_form_with_too_many_fields_is_refused(
    signed_in: TestClient, waiting: mt.OpenQuestion
) -> None:
    headers = {**OWN, "Content-Type": "application/x-www-form-urlencoded"}
    assert (
        signed_in.post(f"/q/{waiting.id}", content=b"a=1&" * 100_000, headers=headers).status_code
        == 400
    )


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//", "http://127.0.0.1:x"])
def test_invalid_origin_is_refused(
    signed_in: TestClient, waiting: mt.OpenQuestion, origin: str
) -> None:
    sent = signed_in.post(f"/q/{waiting.id}", data={"value": "true"}, headers={"Origin": origin})

    assert sent.status_code == 403


def status_of(
    store: MemoryStore, headers: Sequence[tuple[bytes, bytes]], query: bytes = b""
) -> int:
    """Return the status of a request that no client library would send."""
    statuses: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def keep(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/none",
        "query_string": query,
        "headers": headers,
    }

    async def ask() -> None:
        await inbox(store, user=ada)(scope, receive, keep)

    asyncio.run(ask())
    (status,) = statuses
    return status


def test_invalid_address_is_refused(store: MemoryStore) -> None:
    assert status_of(store, [(b"host", HOST.encode())], b"\x80") == 400


def test_request_with_several_hosts_is_refused(store: MemoryStore) -> None:
    """A proxy may use the first of two Host headers and midturn the last."""
    host = (b"host", HOST.encode())

    assert status_of(store, [host]) == 404
    assert [
        status_of(store, headers)
        for headers in ([], [host, host], [host, (b"host", b"evil.example")])
    ] == [421] * 3


def test_websocket_is_refused(signed_in: TestClient) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), signed_in.websocket_connect("/api/events"):
        pass


# Response headers and contents
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/q/x", "/api/questions", "/api/questions/x", "/enter?code=x"]
)
def test_every_response_has_the_headers(signed_in: TestClient, path: str) -> None:
    headers = signed_in.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert (
        headers["x-content-type-options"],
        headers["referrer-policy"],
        headers["cache-control"],
    ) == (
        "nosniff",
        "no-referrer",
        "no-store",
    )
    assert "server" not in headers
    assert not any(name.startswith("access-control") for name in headers)


def test_page_has_only_own_external_scripts_and_styles(
    signed_in: TestClient, waiting: mt.OpenQuestion
) -> None:
    for path in ("/", f"/q/{waiting.id}"):
        page = signed_in.get(path).text
        assert page.count("<script") == page.count('<script src="/static/') == 1
        assert page.count("<link") == page.count('href="/static/')
        assert not any(
            word in page
            for word in (
                "<style",
                " style=",
                "onclick=",
                "onload=",
                "javascript:",
                "http://",
                "https://",
            )
        )


# Embedding programs and proxies
# --------------------------------------------------------------------------------------------------


def test_program_identifies_its_users(store: MemoryStore, waiting: mt.OpenQuestion) -> None:
    def user(request: object) -> str | None:
        return request.headers.get("x-user")  # type: ignore[attr-defined]  # a request of Starlette's

    with browsing(inbox(store, user=user)) as client:
        assert client.get("/").status_code == 401
        assert client.get("/", headers={"X-User": "grace"}).status_code == 200
        assert client.get("/enter?code=x", headers={"X-User": "grace"}).status_code == 404
        assert "set-cookie" not in client.get("/", headers={"X-User": "grace"}).headers
        client.headers["X-User"] = "grace"
        send(client, waiting, answer="yes")
        assert "grace (web) answered" in client.get(f"/q/{waiting.id}").text


def test_program_may_identify_users_asynchronously_and_respond_itself(
    store: MemoryStore, waiting: mt.OpenQuestion
) -> None:
    async def user(request: object) -> str | None:
        return ada(request)

    with browsing(
        inbox(store, user=user, may_answer=lambda _question, user: user != "ada")
    ) as client:
        sent = send(client, waiting, answer="yes")
    assert (sent.status_code, "may not answer" in sent.text) == (403, True)
    assert store.pending_sync()


SECRET = "a secret of the proxy's"


def test_proxy_user_header_must_be_single_and_needs_the_secret(store: MemoryStore) -> None:
    site = AppState(
        board=OpenQuestionList(Port(store)),
        library=ConversationCache(Port(store)),
        access=HeaderAccess("X-Remote-User", SECRET),
    )
    shown, ada_ = ("X-Midturn-Proxy-Secret", SECRET), ("X-Remote-User", "ada")
    with browsing(application(site, NAMES)) as client:
        for headers in (
            [shown],
            [ada_],
            [shown, ("X-Remote-User", " ")],
            [shown, ada_, ("X-Remote-User", "eve")],
            [shown, shown, ada_],
            [("X-Midturn-Proxy-Secret", ""), ada_],
            [("X-Midturn-Proxy-Secret", f"{SECRET} "), ("X-Midturn-Proxy-Secret", "x"), ada_],
        ):
            assert client.get("/", headers=headers).status_code == 401
        assert client.get("/", headers=[shown, ada_]).status_code == 200

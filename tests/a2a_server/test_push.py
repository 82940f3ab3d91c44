"""Push notifications: what is sent, to which addresses, how often, and what is stored."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

import midturn as mt
from midturn.stores.store import ConversationStore
from support.a2a import Json, Peer, RpcError, call, require_sdk, scripted, serving, state
from support.waiting import until
from support.webhooks import Receiver, receiving

require_sdk()

from midturn.integrations import a2a  # noqa: E402  needs the extra
from midturn.integrations.a2a import push_sender, webhooks  # noqa: E402
from midturn.integrations.a2a.push_sender import PushSender  # noqa: E402
from midturn.integrations.a2a.tasks import TaskReader  # noqa: E402
from midturn.integrations.a2a.webhooks import Webhooks  # noqa: E402

KEY = "0123456789abcdef0123456789abcdef"
LOCAL = a2a.PushSettings(key=KEY, private_addresses=True)
PUBLIC = a2a.PushSettings(key=KEY)
NEEDLE = "n33dle"


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    return f"deployed to {await ctx.ask(mt.Question.text('where', 'Where to?'))}"


def asking(store: ConversationStore | None = None) -> mt.Agent:
    return scripted(call("deploy"), {"text": "Done."}, tools=[deploy], store=store)


@asynccontextmanager
async def pushing(agent: mt.Agent, settings: a2a.PushSettings = LOCAL) -> AsyncGenerator[Peer]:
    async with serving(agent, push=settings) as client:
        yield Peer(client)


def webhook(url: str, **more: object) -> Json:
    return {"taskPushNotificationConfig": {"id": "w1", "url": url, **more}}


async def listed(peer: Peer, task: Json) -> list[Json]:
    found = await peer.call("ListTaskPushNotificationConfigs", taskId=task["id"])
    return found.get("configs", [])


async def until_none(peer: Peer, task: Json) -> None:
    """Wait until a task has no webhook."""
    async with asyncio.timeout(60):
        while await listed(peer, task):  # noqa: ASYNC110  as a client polls
            await asyncio.sleep(0.02)


def test_question_and_end_are_sent_once_with_the_credentials() -> None:
    async def scene(receiver: Receiver) -> None:
        async with pushing(asking()) as peer:
            given = webhook(
                f"{receiver.url}/hook?x=1",
                token="t0ken",
                authentication={"scheme": "Bearer", "credentials": "s3cret"},
            )
            asked = await peer.send("Go.", configuration=given)
            await until(lambda: receiver.states == ["input_required"])
            (config,) = await listed(peer, asked)
            assert config == {
                "id": "w1",
                "taskId": asked["id"],
                "url": f"{receiver.url}/hook?x=1",
                "token": "t0ken",
                "authentication": {"scheme": "Bearer"},
            }
            await peer.answer(asked, "prod")
            await until_none(peer, asked)
        assert receiver.states == ["input_required", "completed"]
        asking_task, ended = receiver.notifications
        for notification in (asking_task, ended):
            assert notification.path == "/hook?x=1"
            assert notification.headers["authorization"] == "Bearer s3cret"
            assert notification.headers["x-a2a-notification-token"] == "t0ken"
            assert notification.headers["content-type"] == "application/json"
            assert notification.task["id"] == asked["id"]
        assert asking_task.task["status"]["message"]["parts"][0]["text"] == "Where to?"
        assert ended.task["artifacts"][0]["parts"] == [{"text": "Done."}]

    with receiving() as receiver:
        asyncio.run(scene(receiver))


def test_task_that_people_answer_is_sent_after_their_answer() -> None:
    @mt.tool
    async def sign(ctx: mt.ToolContext) -> str:
        """Sign."""
        await ctx.ask(mt.Question.boolean("sign", "Sign?", exclusive=True))
        return "signed"

    async def scene(receiver: Receiver) -> None:
        agent = scripted(call("sign"), {"text": "Done."}, tools=[sign])
        async with serving(agent, push=LOCAL, work=True) as client:
            await Peer(client).send("Go.", configuration=webhook(receiver.url))
            await until(lambda: receiver.states == ["auth_required"])
            (waiting,) = await agent.store.pending()
            await agent.store.answer(waiting, True, user="ada")
            await until(lambda: receiver.states == ["auth_required", "completed"])

    with receiving() as receiver:
        asyncio.run(scene(receiver))


def test_webhook_of_a_task_that_has_ended_gets_its_end() -> None:
    async def scene(receiver: Receiver) -> None:
        async with pushing(scripted({"text": "Hello."})) as peer:
            ended = await peer.send("Hi.")
            assert state(ended) == "completed"
            await peer.call(
                "CreateTaskPushNotificationConfig", taskId=ended["id"], url=receiver.url
            )
            await until_none(peer, ended)
        assert receiver.states == ["completed"]

    with receiving() as receiver:
        asyncio.run(scene(receiver))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/hook",
        "https://127.0.0.1/hook",
        "https://127.1/hook",
        "https://2130706433/hook",
        "https://0x7f000001/hook",
        "https://[::1]/hook",
        "https://[::ffff:10.0.0.1]/hook",
        "https://10.0.0.7/hook",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/hook",
        "https://localhost./hook",
        "https://printer.local/hook",
        "https://intranet/hook",
        "https://ada:pass@example.org/hook",
        "https://example.org:99999/hook",
        "https://example.org/a b",
        "https://" + "a" * 2000 + ".example.org",
        "ftp://example.org",
        "file:///etc/passwd",
        "",
    ],
)
def test_address_that_is_not_public_is_refused_before_the_task_begins(url: str) -> None:
    async def scene() -> None:
        agent = asking()
        async with pushing(agent, PUBLIC) as peer:
            with pytest.raises(RpcError) as refused:
                await peer.send("Go.", configuration=webhook(url))
            assert refused.value.code == -32602
            assert await agent.store.ids() == []

    asyncio.run(scene())


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7", "::1", "169.254.169.254"])
def test_host_name_of_a_private_address_is_not_contacted(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(receiver: Receiver) -> None:
        port = receiver.url.rpartition(":")[2]
        asked: list[str] = []

        async def resolve(host: str, _: int) -> list[str]:
            asked.append(host)
            return [address]

        agent = asking()
        async with sending(agent, PUBLIC, resolve) as peer:
            await peer.send("Go.", configuration=webhook(f"https://hook.example.org:{port}/"))
            await until(lambda: "no public address" in caplog.text)
        assert asked
        assert receiver.notifications == []

    with receiving() as receiver:
        asyncio.run(scene(receiver))


@asynccontextmanager
async def sending(
    agent: mt.Agent, settings: a2a.PushSettings, resolve: push_sender.Resolve
) -> AsyncGenerator[Peer]:
    """Serve an agent, with a sender that resolves host names in another way."""
    port = agent.store.port
    sender = PushSender(
        port, TaskReader(agent.store, "auth_required"), Webhooks(port, settings), resolve
    )
    running = asyncio.create_task(sender.run())
    await until(lambda: sender.is_sending)
    try:
        async with pushing(agent, settings) as peer:
            yield peer
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_connection_is_made_to_the_checked_address_with_the_name_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hook.example.org").configure_cert(tls)
    resolutions: list[str] = []

    async def resolve(host: str, _: int) -> list[str]:
        resolutions.append(host)
        return ["127.0.0.1"]

    async def scene(receiver: Receiver) -> None:
        port = receiver.url.rpartition(":")[2]
        async with sending(asking(), LOCAL, resolve) as peer:
            await peer.send("Go.", configuration=webhook(f"https://hook.example.org:{port}/x"))
            await until(lambda: receiver.states == ["input_required"])
        assert receiver.notifications[0].headers["host"] == f"hook.example.org:{port}"
        assert resolutions == ["hook.example.org"]

    with receiving(tls) as receiver:
        asyncio.run(scene(receiver))


def test_failed_notification_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_sender, "RETRY_DELAYS", (0.01,))

    async def scene(receiver: Receiver) -> None:
        receiver.statuses = [500, 302, 429]
        receiver.location = f"{receiver.url}/other"
        async with pushing(asking()) as peer:
            asked = await peer.send("Go.", configuration=webhook(f"{receiver.url}/hook"))
            await until(lambda: len(receiver.notifications) == 4)
            await peer.answer(asked, "prod")
            await until_none(peer, asked)
        assert receiver.states == ["input_required"] * 4 + ["completed"]
        assert {each.path for each in receiver.notifications} == {"/hook"}  # no redirect

    with receiving() as receiver:
        asyncio.run(scene(receiver))


@pytest.mark.parametrize(("statuses", "attempts"), [([410], 1), ([404], 1), ([500] * 9, 3)])
def test_webhook_that_is_gone_or_always_fails_is_removed(
    statuses: list[int], attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_sender, "RETRY_DELAYS", (0.01,))
    monkeypatch.setattr(push_sender, "MAX_ATTEMPTS", 3)

    async def scene(receiver: Receiver) -> None:
        receiver.statuses = statuses
        async with pushing(asking()) as peer:
            asked = await peer.send("Go.", configuration=webhook(receiver.url))
            await until_none(peer, asked)
        assert len(receiver.notifications) == attempts

    with receiving() as receiver:
        asyncio.run(scene(receiver))


def test_receiver_that_does_not_respond_delays_no_other_webhook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(push_sender, "TIMEOUT", 0.3)
    monkeypatch.setattr(push_sender, "RETRY_DELAYS", (0.01,))

    async def scene(slow: Receiver, fast: Receiver) -> None:
        async with pushing(asking()) as peer:
            asked = await peer.send("Go.", configuration=webhook(slow.url))
            await peer.call(
                "CreateTaskPushNotificationConfig", taskId=asked["id"], id="w2", url=fast.url
            )
            await until(lambda: fast.states == ["input_required"])
            await until(lambda: len(slow.notifications) >= 2)  # tried again after the time limit

    with receiving() as slow, receiving() as fast:
        never = threading.Event()
        slow.before_response = lambda: never.wait(60)
        try:
            asyncio.run(scene(slow, fast))
        finally:
            never.set()


def test_deleted_webhook_gets_nothing_more() -> None:
    async def scene(receiver: Receiver) -> None:
        async with pushing(asking()) as peer:
            asked = await peer.send("Go.", configuration=webhook(f"{receiver.url}/old"))
            await until(lambda: receiver.states == ["input_required"])
            named = {"taskId": asked["id"], "id": "w1"}
            for _ in range(2):  # deleting it again is no error
                await peer.call("DeleteTaskPushNotificationConfig", **named)
            with pytest.raises(RpcError) as missing:
                await peer.call("GetTaskPushNotificationConfig", **named)
            assert missing.value.code == -32001
            await peer.answer(asked, "prod")
            await peer.call(
                "CreateTaskPushNotificationConfig", taskId=asked["id"], url=f"{receiver.url}/new"
            )
            await until(lambda: len(receiver.notifications) == 2)
        assert [each.path for each in receiver.notifications] == ["/old", "/new"]

    with receiving() as receiver:
        asyncio.run(scene(receiver))


def test_webhooks_of_others_cannot_be_reached() -> None:
    async def scene(receiver: Receiver) -> None:
        async with serving(asking(), push=LOCAL) as client:
            ada, eve = Peer(client), Peer(client, "eve")
            asked = await ada.send("Go.", configuration=webhook(receiver.url))
            task, named = {"taskId": asked["id"]}, {"taskId": asked["id"], "id": "w1"}
            for method, given in (
                ("CreateTaskPushNotificationConfig", {**task, "url": receiver.url}),
                ("GetTaskPushNotificationConfig", named),
                ("ListTaskPushNotificationConfigs", task),
                ("DeleteTaskPushNotificationConfig", named),
            ):
                with pytest.raises(RpcError) as refused:
                    await eve.call(method, **given)
                assert refused.value.code == -32001
            assert len(await listed(ada, asked)) == 1

    with receiving() as receiver:
        asyncio.run(scene(receiver))


def test_number_of_webhooks_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_FOR_PRINCIPAL", webhooks.MAX_FOR_TASK + 1)

    async def scene(receiver: Receiver) -> None:
        store = mt.MemoryStore()
        agent = scripted(
            call("deploy"), call("deploy"), {"text": "Done."}, tools=[deploy], store=store
        )
        async with pushing(agent) as peer:
            tasks = [await peer.send("Go.") for _ in range(2)]

            async def create(task: Json, number: int) -> None:
                given = {"taskId": task["id"], "id": f"w{number}", "url": receiver.url}
                await peer.call("CreateTaskPushNotificationConfig", **given)

            for number in range(webhooks.MAX_FOR_TASK):
                await create(tasks[0], number)
            await create(tasks[0], 0)  # replaces the first one
            with pytest.raises(RpcError, match="may have 10"):
                await create(tasks[0], 99)
            await create(tasks[1], 0)
            with pytest.raises(RpcError, match="a client 11"):
                await create(tasks[1], 1)

    with receiving() as receiver:
        asyncio.run(scene(receiver))


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "é", "x" * 9000])
def test_credentials_that_are_no_header_are_refused(value: str) -> None:
    async def scene() -> None:
        async with pushing(asking()) as peer:
            with pytest.raises(RpcError) as refused:
                await peer.send("Go.", configuration=webhook("http://127.0.0.1:9/", token=value))
            assert refused.value.code == -32602

    asyncio.run(scene())


def _contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.rglob("*") if file.is_file()]


def test_stored_and_logged_webhook_contains_no_address_and_no_credentials(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(receiver: Receiver) -> None:
        receiver.statuses = [500]
        async with pushing(asking(mt.open_store(tmp_path))) as peer:
            authentication = {"scheme": "Bearer", "credentials": f"{NEEDLE}-credentials"}
            given = webhook(
                f"{receiver.url}/{NEEDLE}", token=f"{NEEDLE}-token", authentication=authentication
            )
            await peer.send("Go.", configuration=given)
            await until(lambda: "cannot be reached" in caplog.text)
            stored = _contents(tmp_path)
            assert any(b'"sealed"' in content for content in stored)
            assert not any(NEEDLE.encode() in content for content in stored)
        assert NEEDLE not in caplog.text

    with receiving() as receiver:
        asyncio.run(scene(receiver))


def test_webhook_of_another_key_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(receiver: Receiver) -> None:
        receiver.statuses = [500]
        store = mt.open_store(tmp_path)
        async with pushing(asking(store)) as peer:
            asked = await peer.send("Go.", configuration=webhook(receiver.url))
            await until(lambda: "cannot be reached" in caplog.text)
        port = store.port
        other = Webhooks(port, a2a.PushSettings(key=KEY[::-1]))
        assert await other.of_task(asked["id"]) == []
        (name,) = await other.all()
        assert other.target(name, (await other.all())[name]) is None

    with receiving() as receiver:
        asyncio.run(scene(receiver))


def test_removed_conversation_removes_its_webhooks(tmp_path: Path) -> None:
    async def scene(receiver: Receiver) -> None:
        store = mt.open_store(tmp_path)
        async with pushing(asking(store)) as peer:
            await peer.send("Go.", configuration=webhook(receiver.url))
            await until(lambda: receiver.states == ["input_required"])
            assert await Webhooks(store.port, LOCAL).all()
            (conversation,) = await store.ids()
            await store.remove(conversation)
            assert not await Webhooks(store.port, LOCAL).all()

    with receiving() as receiver:
        asyncio.run(scene(receiver))


def test_card_names_push_notifications_only_if_they_are_on() -> None:
    async def capability(**options: object) -> bool:
        async with serving(asking(), **options) as client:
            card = (await client.get("/.well-known/agent-card.json")).json()
            return card["capabilities"].get("pushNotifications", False)

    assert asyncio.run(capability(push=LOCAL))
    assert not asyncio.run(capability())


def test_short_key_is_refused() -> None:
    with pytest.raises(mt.ConfigError, match="at least 16"):
        a2a.PushSettings(key="short")
    assert KEY not in repr(LOCAL)

"""Cost of the page: 10,000 open questions, a click until it is recorded, an answer until 200
pages show it, memory.

`python benchmarks/web.py [ANSWERS]`.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import midturn as mt
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from midturn.web import inbox

OPEN, PAGES, TAPS, ANSWERS = 10_000, 200, 100, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    return str(await ctx.ask(mt.Question.boolean("confirm", "Deploy to production?")))


async def ask(store: ConversationStore) -> str:
    """Suspend a turn; return the ID of its question."""
    model = mt.ScriptedModel([{"calls": [{"name": "deploy"}]}])
    return (await mt.Agent(model, tools=[deploy], store=store).run("Ship it.")).pending[0].id


async def get(app: Any, path: str, sent: Callable[[bytes], None], *, form: bytes = b"") -> None:
    """Request a page or send a form without a socket.

    `sent` is called with each piece of the response.
    """
    headers = [
        (b"host", b"127.0.0.1"),
        (b"accept", b"text/html"),
        (b"sec-fetch-site", b"same-origin"),
    ]
    headers += [(b"content-type", b"application/x-www-form-urlencoded")] if form else []
    scope = {
        "type": "http",
        "method": "POST" if form else "GET",
        "path": path,
        "query_string": b"",
        "headers": headers,
        "root_path": "",
        "scheme": "http",
    }
    scope |= {
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "http_version": "1.1",
        "raw_path": path.encode(),
        "asgi": {"version": "3.0"},
    }
    left = asyncio.Event()
    bodies = [form]

    async def receive() -> dict[str, Any]:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent(message.get("body", b""))

    await app(scope, receive, send)


async def main() -> None:
    with TemporaryDirectory() as folder:
        store = FileStore(Path(folder) / "conversations")
        ids = [await ask(store) for _ in range(OPEN)]
        app = inbox(store, user=lambda _: "ada")
        size: list[int] = []
        await get(app, "/", lambda body: size.append(len(body)))
        times: list[float] = []
        for _ in range(10):
            begun = time.perf_counter()
            await get(app, "/", lambda _: None)
            times.append((time.perf_counter() - begun) * 1_000)
            await asyncio.sleep(0.3)
        print(
            f"{OPEN:,} open questions listed in {sorted(times)[5]:.0f} ms (middle of 10;"
            f" {sum(size) / 1_000:,.0f} kB)"
        )
        await tapped(app, store, ids)
        await watched(app, store, ids.pop())
    await flat()


async def tapped(app: Any, store: ConversationStore, ids: list[str]) -> None:
    """Answer questions with yes in sequence; check that each is recorded, and print the times."""
    times: list[float] = []
    for _ in range(TAPS):
        id = ids.pop()  # noqa: A001  the wire's word
        begun = time.perf_counter()
        await get(app, f"/q/{id}", lambda _: None, form=b"answer=yes")
        times.append((time.perf_counter() - begun) * 1_000)
        conversation = await store.read(id.partition("-")[0])
        assert all(pair.response is not None for pair in conversation.pairs()), id
    print(
        f"a tap was recorded after {sorted(times)[TAPS // 2]:.0f} ms (middle of {TAPS}; the slowest"
        f" after {max(times):.0f} ms)"
    )


async def watched(app: Any, store: ConversationStore, id: str) -> None:
    """Open 200 event streams, answer, and wait until all of them are notified."""
    heard: list[float] = []
    listening: list[bytes] = []

    def listens(body: bytes) -> None:
        if b"retry:" in body:
            listening.append(body)
        if b"event: answered" in body:
            heard.append(time.perf_counter())

    pages = [asyncio.create_task(get(app, "/api/events", listens)) for _ in range(PAGES)]
    while len(listening) < PAGES:
        await asyncio.sleep(0.05)
    begun = time.perf_counter()
    await store.answer(id, True)
    while len(heard) < PAGES:
        await asyncio.sleep(0.005)
    first, last = ((at - begun) * 1_000 for at in (min(heard), max(heard)))
    print(f"an answer reached {PAGES} pages within {last:.0f} ms, the first after {first:.0f} ms")
    for page in pages:
        page.cancel()
    await asyncio.gather(*pages, return_exceptions=True)


async def flat() -> None:
    """Answer many questions while a page is connected; print the memory growth after the first
    tenth.
    """
    store = mt.MemoryStore()
    app = inbox(store, user=lambda _: "ada")
    listening = asyncio.create_task(get(app, "/api/events", lambda _: None))
    begun = 0
    for number in range(ANSWERS):
        id = await ask(store)  # noqa: A001  the wire's word
        await store.answer(id, True)
        await get(app, "/", lambda _: None)
        await store.remove(id.partition("-")[0])
        if number == ANSWERS // 10:
            gc.collect()
            begun = _memory()
    gc.collect()
    print(
        f"memory grew by {(_memory() - begun) / 1_024:.1f} MB over {ANSWERS:,} answers (after the"
        " first tenth)"
    )
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


def _memory() -> int:
    """Return the maximum memory of this process in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    asyncio.run(main())

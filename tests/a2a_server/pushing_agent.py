"""A server with push notifications that a test kills: `python pushing_agent.py STORE PORT [STEP]`.

With STEP, the server kills itself at this step. A step is the moment before or after a value is
stored, and before or after a notification is sent.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import uvicorn

import midturn as mt
from midturn.integrations import a2a
from midturn.integrations.a2a import push_sender
from midturn.stores import lease
from midturn.stores.file_conversations import FileKeyValueStore

KEY = "0123456789abcdef0123456789abcdef"


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    return f"deployed to {await ctx.ask(mt.Question.text('where', 'Where to?'))}"


def _is_of_webhook(_: object, name: str, *__: object) -> bool:
    return name.startswith("a2a-push/")


def _is_any(*_: object) -> bool:
    return True


def _kill_at(last: int) -> None:
    """Kill this process at a step."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def stepped(home: type, name: str, *, counts: Callable[..., bool]) -> None:
        original = getattr(home, name)

        async def call(*args: Any, **more: Any) -> Any:
            if not counts(*args):
                return await original(*args, **more)
            step()
            result = await original(*args, **more)
            step()
            return result

        setattr(home, name, call)

    stepped(FileKeyValueStore, "keep", counts=_is_of_webhook)
    stepped(push_sender.PushSender, "_delivered", counts=_is_any)


def main(store: str, port: int, step: int) -> None:
    """Serve the agent until killed."""
    # A killed server keeps its lease. The next server must not wait for long.
    lease.LEASE_SECONDS = 1.0  # type: ignore[misc]
    push_sender.LEASE_RENEWAL_INTERVAL = 0.2  # type: ignore[misc]
    if step:
        _kill_at(step)
    model = mt.ScriptedModel([{"calls": [{"name": "deploy", "arguments": {}}]}, {"text": "Done."}])
    agent = mt.Agent(model, tools=[deploy], store=mt.open_store(store))
    card = {"name": "D", "description": "Deploys.", "url": f"http://127.0.0.1:{port}"}
    push = a2a.PushSettings(key=KEY, private_addresses=True)
    app = a2a.app(agent, user=lambda _: "ada", card=card, push=push)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)

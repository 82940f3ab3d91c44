"""Remote agents over real HTTP, for the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

import midturn as mt
from support.a2a import served


@asynccontextmanager
async def listening(app: Any) -> AsyncGenerator[str]:
    """Serve an application at a free port. Yield its address."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
    running = asyncio.create_task(server.serve())
    try:
        while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await running


@asynccontextmanager
async def midturn_agent(agent: mt.Agent, **options: Any) -> AsyncGenerator[str]:
    """Serve an agent of midturn. Its card names the address of the server."""
    holder: list[Any] = []

    async def late(scope: Any, receive: Any, send: Any) -> None:
        await holder[0](scope, receive, send)

    async with listening(_without_lifespan(late)) as url:
        card = {"name": "Remote", "description": "Remote.", "url": url}
        holder.append(served(agent, card=card, user=_caller, **options))
        yield url


def _caller(_: object) -> str:
    return "caller"


Execute = Callable[[Any, Any], Awaitable[None]]


@asynccontextmanager
async def sdk_agent(execute: Execute) -> AsyncGenerator[str]:
    """Serve an agent that is written with the SDK: `execute(context, updater)`."""
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
    from a2a.types.a2a_pb2 import Task, TaskState, TaskStatus
    from starlette.applications import Starlette

    from midturn.integrations.a2a.card import agent_card

    class Executor(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:
            if context.current_task is None:
                submitted = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
                await event_queue.enqueue_event(
                    Task(id=context.task_id, context_id=context.context_id, status=submitted)
                )
            updater = TaskUpdater(event_queue, context.task_id, context.context_id)
            await execute(context, updater)

        async def cancel(self, context: Any, event_queue: Any) -> None:
            raise NotImplementedError

    holder: list[Any] = []

    async def late(scope: Any, receive: Any, send: Any) -> None:
        await holder[0](scope, receive, send)

    async with listening(_without_lifespan(late)) as url:
        card = agent_card({"name": "SDK", "description": "SDK.", "url": url})
        handler = DefaultRequestHandler(
            agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card
        )
        routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]
        holder.append(Starlette(routes=routes))
        yield url


def _without_lifespan(app: Any) -> Any:
    async def served_app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    return served_app

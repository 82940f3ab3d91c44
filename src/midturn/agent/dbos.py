"""Turns as DBOS workflows: its queue, limits, recovery and dashboard, over a store in PostgreSQL.

A segment of a turn (from an answer to the next question) is one workflow, `<schema>/<conversation>/<position>`. It is enqueued inside the
statement that records the answer. What DBOS loses, a sweeper finds: the store itself knows what is due.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import psycopg
from dbos import DBOS, DBOSConfig
from psycopg import sql

from midturn.clock import Outage
from midturn.errors import NotOpen, StoreError, StoreLocked
from midturn.ports import show_claimed
from midturn.stores.locked import HeldConversation
from midturn.stores.postgres.conversations import PostgresConversations
from midturn.stores.store import ConversationStore

_LOG = logging.getLogger("midturn.worker")
_POLL = 0.1
"""Seconds between two looks of DBOS at its queue."""
_PAUSE = 1.0
"""Seconds between two tries to launch it."""
_SWEEP = 5.0
"""Seconds between two looks at what is due, in case the engine lost it."""

_INSTALL = """
create or replace function {s}.enqueue(conversation text, place text) returns void language plpgsql as $body$
begin
  perform dbos.enqueue_workflow(
    {workflow}, {queue}, array[to_json(conversation)],
    workflow_id => {prefix} || conversation || '/' || place, app_version => {version});
exception when others then  -- no answer is refused because an engine is away
  raise warning 'midturn: % was not enqueued and waits for the sweeper: %', conversation, sqlerrm;
end
$body$;
create or replace function {s}.woken(conversation text, head int) returns void language sql as
  $body$ select {s}.enqueue(conversation, head::text) $body$;
"""
_SWEEP_UP = """
select {s}.enqueue(id, head || '/' || %(moment)s) from {s}.conversation
where wake <= now() and unfinished and (holder is null or pg_try_advisory_xact_lock_shared({c}, holder))
"""
_VERSION = "midturn"
"""One version for all workers: a turn goes on under any of them, since its state is the log and not the workflow."""


class DbosEngine:
    """One process that runs segments. Start as many as you like; DBOS shares the work out."""

    def __init__(self, store: ConversationStore, segment: Callable[[HeldConversation], Awaitable[object]], at_once: int) -> None:
        """Work on `store`.

        Args:
            store: A store in PostgreSQL; DBOS keeps its tables in the same database, in the schema `dbos`.
            segment: Goes on with the open turn of a conversation, until it is done or waits.
            at_once: How many turns run at the same time in this process.

        Raises:
            StoreError: The store is not in PostgreSQL.
        """
        self._postgres = _in_postgres(store)
        self._store = store
        self._segment = segment
        self._at_once = at_once
        self._away = Outage(_LOG, "due turns can be enqueued again")
        self._queue = f"midturn.{self._postgres.address.schema}"

    async def run(self) -> None:
        """Work until cancelled."""
        DBOS.workflow(name=f"{self._queue}.segment", max_recovery_attempts=None)(self._workflow())
        try:
            while not await self._has_begun():  # noqa: ASYNC110  nothing tells us when the database is back
                await asyncio.sleep(_PAUSE)
            while True:
                await self._sweep()
                await asyncio.sleep(_SWEEP)
        finally:
            await asyncio.to_thread(DBOS.destroy)

    async def _has_begun(self) -> bool:
        """Launch DBOS, which gives up where the database goes away meanwhile; then False, and it is tried again."""
        config = DBOSConfig(
            name="midturn",
            system_database_url=self._postgres.address.url,
            application_version=_VERSION,
            log_level="WARNING",
        )
        try:
            await self._postgres.ids(limit=1)  # the tables are there
            DBOS(config=config)
            DBOS.launch()
            await DBOS.register_queue_async(self._queue, worker_concurrency=self._at_once, polling_interval_sec=_POLL)
            await self._install()
        except Exception as error:
            if not _is_away(error):
                raise
            self._away.noticed("DBOS cannot be launched for now: %s", error)
            await asyncio.to_thread(DBOS.destroy)
            return False
        return True

    def _workflow(self) -> Callable[[str], Awaitable[str]]:
        async def segment(conversation: str) -> str:
            return await self._go_on(conversation)

        return segment

    async def _go_on(self, conversation: str) -> str:
        """Run one segment. Nothing that the store or a tool does leaves it as an error: DBOS would never run it again."""
        try:
            async with await self._store.open(conversation) as journal:
                show_claimed(journal.events)
                await self._segment(journal)
        except (NotOpen, StoreLocked):
            return "nothing to do"
        except Exception as error:  # noqa: BLE001  the store says when it is tried again
            _LOG.warning("conversation %s will be tried again: %r", conversation, error)
            return "to be tried again"
        return "done"

    async def _install(self) -> None:
        """Have each recorded answer enqueue its segment, in the same transaction."""
        schema = self._postgres.address.schema
        statement = sql.SQL(_INSTALL).format(
            s=sql.Identifier(schema),
            workflow=sql.Literal(f"{self._queue}.segment"),
            queue=sql.Literal(self._queue),
            prefix=sql.Literal(f"{schema}/"),
            version=sql.Literal(_VERSION),
        )
        await self._postgres.loop.run(self._postgres.database.script(statement))

    async def _sweep(self) -> None:
        """Enqueue what is due. One that is enqueued already, or ran without any event, gets an id of this moment."""
        moment = str(int(time.time() / _SWEEP))
        try:
            await self._postgres.loop.run(self._postgres.database.rows(_SWEEP_UP, {"moment": moment}))
        except StoreError as error:
            self._away.noticed("due turns cannot be enqueued for now: %s", error)
        else:
            self._away.over()


def _is_away(error: Exception) -> bool:
    """Say whether it was the database that was not there; DBOS wraps what the driver says."""
    return isinstance(error, StoreError) or isinstance(getattr(error, "orig", error), psycopg.OperationalError)


def _in_postgres(store: ConversationStore) -> PostgresConversations:
    if isinstance(store.port, PostgresConversations):
        return store.port
    raise StoreError("DBOS works on a store in PostgreSQL: open it with `open_store('postgresql://…')`.")

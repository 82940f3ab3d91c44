"""Runs turns as DBOS workflows, with the queue, limits, recovery and dashboard of DBOS. The store
must be in PostgreSQL.

A segment of a turn (from an answer to the next question) is one workflow,
`<schema>/<conversation>/<position>`. It is enqueued by the statement that records the answer. A
`<schema>/<conversation>/<position>`. It is enqueued by the statement that records the answer. A
periodic sweep enqueues every turn that the store reports as ready, so that segments that DBOS lost
run anyway.
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
from midturn.stores.locked import LockedConversation
from midturn.stores.postgres.conversations import PostgresConversations
from midturn.stores.store import ConversationStore

_LOG = logging.getLogger("midturn.worker")
_POLL_INTERVAL = 0.1
"""Seconds between polls of the queue by DBOS."""
_RETRY_DELAY = 1.0
"""Seconds between attempts to launch DBOS."""
_SWEEP_INTERVAL = 5.0
"""Seconds between sweeps for ready turns."""

_INSTALL_STATEMENT = """
create or replace function {s}.enqueue(conversation text, place text) returns void language plpgsql as $body$
begin
  perform dbos.enqueue_workflow(
    {workflow}, {queue}, array[to_json(conversation)],
    workflow_id => {prefix} || conversation || '/' || place, app_version => {version});
exception when others then  -- an answer must be recorded even if DBOS is unavailable
  raise warning 'midturn: % was not enqueued and waits for the sweeper: %', conversation, sqlerrm;
end
$body$;
create or replace function {s}.woken(conversation text, head int) returns void language sql as
  $body$ select {s}.enqueue(conversation, head::text) $body$;
"""
_SWEEP_STATEMENT = """
select {s}.enqueue(id, head || '/' || %(moment)s) from {s}.conversation
where wake <= now() and unfinished and (holder is null or pg_try_advisory_xact_lock_shared({c}, holder))
"""
_VERSION = "midturn"
"""All workers use the same version, because any worker can continue a turn. The state of a turn
is in the log and not in the workflow.
"""


class DbosEngine:
    """A process that runs segments of turns as DBOS workflows. Several such processes can run at
    the same time; DBOS distributes the work.
    """

    def __init__(
        self,
        store: ConversationStore,
        segment: Callable[[LockedConversation], Awaitable[object]],
        at_once: int,
    ) -> None:
        """Create an engine for `store`.

        Args:
            store: Store in PostgreSQL. DBOS keeps its tables in the same database, in the schema
                `dbos`.
            segment: Continues the open turn of a conversation until it ends or waits.
            at_once: Maximum number of concurrent turns in this process.

        Raises:
            StoreError: The store is not in PostgreSQL.
        """
        self._postgres = _postgres_of(store)
        self._store = store
        self._segment = segment
        self._at_once = at_once
        self._outage = Outage(_LOG, "ready turns can be enqueued again")
        self._queue = f"midturn.{self._postgres.address.schema}"

    async def run(self) -> None:
        """Work until cancelled."""
        DBOS.workflow(name=f"{self._queue}.segment", max_recovery_attempts=None)(self._workflow())
        try:
            while not await self._launch():  # noqa: ASYNC110  there is no notification when the database becomes available
                await asyncio.sleep(_RETRY_DELAY)
            while True:
                await self._sweep()
                await asyncio.sleep(_SWEEP_INTERVAL)
        finally:
            await asyncio.to_thread(DBOS.destroy)

    async def _launch(self) -> bool:
        """Launch DBOS. Return False if the database is unavailable, so that the launch is tried
        again.
        """
        config = DBOSConfig(
            name="midturn",
            system_database_url=self._postgres.address.url,
            application_version=_VERSION,
            log_level="WARNING",
        )
        try:
            await self._postgres.ids(limit=1)  # this query fails if the tables do not exist
            DBOS(config=config)
            DBOS.launch()
            await DBOS.register_queue_async(
                self._queue, worker_concurrency=self._at_once, polling_interval_sec=_POLL_INTERVAL
            )
            await self._install()
        except Exception as error:
            if not _is_database_unavailable(error):
                raise
            self._outage.noticed("DBOS cannot be launched: %s", error)
            await asyncio.to_thread(DBOS.destroy)
            return False
        return True

    def _workflow(self) -> Callable[[str], Awaitable[str]]:
        async def segment(conversation: str) -> str:
            return await self._run_segment(conversation)

        return segment

    async def _run_segment(self, conversation: str) -> str:
        """Run one segment. The workflow must not raise an error, because DBOS would never run a
        failed workflow again.
        """
        try:
            async with await self._store.open(conversation) as journal:
                show_claimed(journal.events)
                await self._segment(journal)
        except (NotOpen, StoreLocked):
            return "nothing to do"
        except Exception as error:  # noqa: BLE001  the store schedules the retry
            _LOG.warning(
                "the turn of conversation %s failed and will be retried: %r", conversation, error
            )
            return "to be tried again"
        return "done"

    async def _install(self) -> None:
        """Install the trigger function that enqueues a segment in the transaction of each
        recorded answer.
        """
        schema = self._postgres.address.schema
        statement = sql.SQL(_INSTALL_STATEMENT).format(
            s=sql.Identifier(schema),
            workflow=sql.Literal(f"{self._queue}.segment"),
            queue=sql.Literal(self._queue),
            prefix=sql.Literal(f"{schema}/"),
            version=sql.Literal(_VERSION),
        )
        await self._postgres.loop.run(self._postgres.database.script(statement))

    async def _sweep(self) -> None:
        """Enqueue all ready turns. The id of a workflow contains the time, because DBOS ignores
        an id that it has seen before, and an earlier segment may have ended without a new event.
        """
        moment = str(int(time.time() / _SWEEP_INTERVAL))
        try:
            await self._postgres.loop.run(
                self._postgres.database.rows(_SWEEP_STATEMENT, {"moment": moment})
            )
        except StoreError as error:
            self._outage.noticed("ready turns cannot be enqueued: %s", error)
        else:
            self._outage.over()


def _is_database_unavailable(error: Exception) -> bool:
    """Return whether an error was caused by an unavailable database. DBOS wraps the errors of
    the driver.
    """
    return isinstance(error, StoreError) or isinstance(
        getattr(error, "orig", error), psycopg.OperationalError
    )


def _postgres_of(store: ConversationStore) -> PostgresConversations:
    if isinstance(store.port, PostgresConversations):
        return store.port
    raise StoreError(
        "DBOS needs a store in PostgreSQL. Open one with `open_store('postgresql://…')`."
    )

"""A store in PostgreSQL, as programs use it."""

from __future__ import annotations

from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.store.postgres.address import parse_database_address
from midturn.store.postgres.conversations import PostgresConversations
from midturn.store.postgres.keeping import differences, reindex
from midturn.store.store import ConversationStore


class PostgresStore(ConversationStore):
    """Conversations in one schema of a database, for any number of processes on any number of machines."""

    def __init__(self, url: str, limits: Limits = DEFAULT_LIMITS) -> None:
        """Stand on `postgresql://…?midturn_schema=NAME&midturn_direct=URL`; nothing is connected before the first use.

        Args:
            url: As `libpq` reads it. `midturn_schema` names the schema (`midturn` without it); `midturn_direct` is an address that leads
                around a pooler in transaction mode, for the one session that each process keeps.
            limits: What a batch may hold.

        Raises:
            ConfigError: The name of the schema is not allowed.
        """
        self.database = PostgresConversations(parse_database_address(url), limits)
        """The database itself."""
        super().__init__(self.database)

    async def upgrade(self) -> tuple[int, int]:
        """Make the tables, or bring them up to date; return their version before and after. Several at once wait for each other.

        Raises:
            StoreError: The database refuses: the role may not create tables in it.
        """
        return await self.database.loop.run(self.database.database.upgrade())

    async def check(self) -> list[str]:
        """Compare the tables with the events, which are the truth; return a line for each conversation that differs."""
        return await self.database.loop.run(self._check())

    async def _check(self) -> list[str]:
        return [str(difference) async for difference, _ in differences(self.database.database)]

    async def reindex(self) -> int:
        """Compute the tables from the events where they differ; return how many conversations that were."""
        return await self.database.loop.run(reindex(self.database.database))

    def upgrade_sync(self) -> tuple[int, int]:
        """Make the tables, or bring them up to date, see `upgrade`."""
        return self.run_sync("upgrade", self.upgrade())

    def check_sync(self) -> list[str]:
        """Compare the tables with the events, see `check`."""
        return self.run_sync("check", self.check())

    def reindex_sync(self) -> int:
        """Compute the tables from the events, see `reindex`."""
        return self.run_sync("reindex", self.reindex())

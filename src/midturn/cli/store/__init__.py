"""`midturn store`: looks after conversations in a database."""

from __future__ import annotations

from midturn.cli.lazy import CommandEntry, lazy_group

command = lazy_group(
    "store",
    "Look after conversations in PostgreSQL.",
    {
        "upgrade": CommandEntry("midturn.cli.store.upgrade", "Make the tables, or bring them up to date."),
        "check": CommandEntry("midturn.cli.store.check", "Compare the tables with the events."),
        "reindex": CommandEntry("midturn.cli.store.reindex", "Compute the tables from the events again."),
    },
)

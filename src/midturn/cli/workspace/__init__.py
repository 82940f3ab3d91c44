"""`midturn workspace`: whose conversations are in the user's data directory."""

from __future__ import annotations

from midturn.cli.lazy import CommandEntry, lazy_group

command = lazy_group(
    "workspace",
    "Look after the conversations of every workspace: they are in your data directory, each workspace's in a folder of its own.",
    {
        "ls": CommandEntry("midturn.cli.workspace.ls", "List which directories have conversations, and where."),
        "mv": CommandEntry("midturn.cli.workspace.mv", "Bring conversations along where a directory was moved."),
        "rm": CommandEntry("midturn.cli.workspace.rm", "Remove all conversations of one for good."),
    },
    {
        "list": "ls",
        **dict.fromkeys(("move", "rename"), "mv"),
        **dict.fromkeys(("delete", "remove"), "rm"),
    },
)

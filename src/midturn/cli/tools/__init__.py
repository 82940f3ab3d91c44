"""`midturn tools`: what a model may call here, and running one by hand."""

from __future__ import annotations

from midturn.cli.lazy import CommandEntry, lazy_group

command = lazy_group(
    "tools",
    "Show the tools of this workspace, or run one by hand.",
    {
        "ls": CommandEntry("midturn.cli.tools.ls", "List them: what is offered, and who is asked."),
        "show": CommandEntry("midturn.cli.tools.show", "Show what a model is told about one."),
        "run": CommandEntry("midturn.cli.tools.run", "Run one, questions included."),
    },
)

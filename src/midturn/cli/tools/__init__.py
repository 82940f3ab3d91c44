"""`midturn tools`: what a model may call here, and running one by hand."""

from __future__ import annotations

from midturn.cli.lazy import Entry, lazy_group

command = lazy_group(
    "tools",
    "Show the tools of this workspace, or run one by hand.",
    {
        "ls": Entry("midturn.cli.tools.ls", "List them: what is offered, and who is asked."),
        "show": Entry("midturn.cli.tools.show", "Show what a model is told about one."),
        "run": Entry("midturn.cli.tools.run", "Run one, questions included."),
    },
)

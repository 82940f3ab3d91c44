"""`midturn acp`: agents that speak the Agent Client Protocol."""

from __future__ import annotations

from midturn.cli.lazy import Entry, lazy_group

command = lazy_group(
    "acp",
    "Agents that speak the Agent Client Protocol.",
    {"run": Entry("midturn.cli.acp.run", "Run one where nobody sits before it; what it asks waits in the inbox.")},
)

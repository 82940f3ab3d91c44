"""`midturn config`: which values hold, who set them, and changing one."""

from __future__ import annotations

from midturn.cli.lazy import CommandEntry, lazy_group

command = lazy_group(
    "config",
    "Show and change the configuration. A KEY is dotted, as in TOML: conversation.tools.'*'.run",
    {
        "show": CommandEntry("midturn.cli.config.show", "Print every value that holds."),
        "get": CommandEntry("midturn.cli.config.get", "Print the value of a key."),
        "set": CommandEntry("midturn.cli.config.set", "Write a value into a configuration file."),
        "explain": CommandEntry("midturn.cli.config.explain", "Say what a key means, and who set it."),
    },
)

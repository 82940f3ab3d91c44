"""midturn's client as run by the conformance tests: a model calls every tool of the server,
and a person accepts all defaults.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec import UNSET

from midturn import Agent, ScriptedModel
from midturn.events.prompt import Prompt
from midturn.mcp.spec import ServerSpec
from midturn.mcp.tool import McpServers
from midturn.prompter import Prompter
from midturn.question.reply import Answered, Reply, Submitted
from midturn.stores.opening import FileStore


class DefaultsPrompter(Prompter):
    """A prompter that answers with the default, or with yes."""

    async def prompt(self, prompt: Prompt) -> Reply:
        if prompt.kind == "review":
            return Submitted()
        return Answered(True if prompt.question.default is UNSET else prompt.question.default)


def main(home: Path, url: str) -> None:
    """Call every tool once, all in parallel in one turn. The log is kept below a directory."""
    with McpServers([ServerSpec(name="it", url=url)]) as servers:
        sys.stderr.write(f"{servers.problems}\n")
        tools = servers.tools["it"]
        calls: list[dict[str, Any]] = [
            {"name": tool.definition.name, "arguments": {}} for tool in tools
        ]
        replies: list[dict[str, Any]] = [{"calls": calls}, {"text": "Done."}]
        agent = Agent(
            model=ScriptedModel(replies),
            tools=tools,
            prompter=DefaultsPrompter(),
            store=FileStore(Path(tempfile.mkdtemp(dir=home))),
        )
        result = agent.run_sync("Go")
        sys.stderr.write(f"{result.status} {result.error or ''}\n")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    main(Path(sys.argv[1]), sys.argv[-1])

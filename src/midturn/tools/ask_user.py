"""`ask_user`: the model asks the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midturn.ports import ToolRun
from midturn.record.events import ASSISTANT, Source
from midturn.record.exchange import ToolDefinition
from midturn.tools.ask_user_call import asked_by_model
from midturn.tools.ask_user_schema import DESCRIPTION, PARAMETERS
from midturn.values.text import ASK_USER

if TYPE_CHECKING:
    from midturn.record.outcome import Outcome


class AskUserTool:
    """The built-in tool whose questions come from the assistant. Only a human answers them, every time anew."""

    @property
    def definition(self) -> ToolDefinition:
        """What is sent to the model, with every request."""
        return ToolDefinition(ASK_USER, DESCRIPTION, PARAMETERS)

    def inquiry_source(self) -> Source:
        """It is the assistant who asks."""
        return ASSISTANT

    async def execute(self, run: ToolRun) -> Outcome:
        """Ask, and return the answers as JSON; arguments that cannot be asked come back as an error that says how to correct them."""
        return await asked_by_model(run)


ask_user = AskUserTool()
"""The tool itself, for the `tools` of an agent: it lets the model ask the user something. No agent has it unless it is put there."""

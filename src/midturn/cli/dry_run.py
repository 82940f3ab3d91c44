"""`midturn query --dry-run`: the request that would be sent, as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import say_json
from midturn.compose.command_line import CommandParts, next_request
from midturn.core.events import ChatRequest, Event
from midturn.models.logged import request_json


def print_request(parts: CommandParts, events: Sequence[Event], asked: ChatRequest) -> ExitStatus:
    """Print what the model would be sent, and send nothing. No secret can be in it: the stream has none."""
    say_json(request_json(parts.settings.assistant.model.id, next_request(parts, events, asked)))
    return ExitStatus.DONE

"""`midturn query --dry-run`: the request that would be sent, as JSON (spec 4b.4)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import say_json
from midturn.cli.place import Place
from midturn.compose import CommandParts, offered_definitions
from midturn.config.load import Loaded
from midturn.core.events import ChatRequest, Event
from midturn.core.json_value import Json
from midturn.core.stream import provider_view


def print_request(loaded: Loaded, place: Place, events: Sequence[Event], text: str) -> ExitStatus:
    """Print what the model would be sent, and send nothing. No secret can be in it: the stream has none."""
    settings = loaded.settings
    asked = ChatRequest(content=text)
    definitions = offered_definitions(CommandParts(settings=settings, root=place.root))
    say_json(
        {
            "model": settings.assistant.model.id,
            "system": settings.assistant.system_prompt,
            "messages": [_message(event) for event in provider_view([*events, asked])],
            "tools": [msgspec.to_builtins(definition) for definition in definitions],
            "tool_choice": settings.assistant.tool_choice,
            "parameters": settings.assistant.model.parameters,
        }
    )
    return ExitStatus.DONE


def _message(event: Event) -> Json:
    """Return an event without what only the stream needs."""
    return {key: value for key, value in event.to_json().items() if key not in ("timestamp", "event_id", "more", "call")}

"""What the tool of a call takes, as the configuration of its conversation has it."""

from __future__ import annotations

from midturn.cli.loading import Flags, load_for
from midturn.cli.place import Place
from midturn.compose.tools import definition_of, known_tools
from midturn.core.json_value import JsonObject
from midturn.core.stream import OpenQuestion


def parameters_of(place: Place, question: OpenQuestion) -> JsonObject:
    """Return what the tool of a call takes; nothing where only the program that runs the turn knows its tools."""
    if question.kind != "run" or question.asker:
        return {}
    events = place.store.read_sync(question.conversation).events
    tools = known_tools(load_for(place, Flags(), events).settings)
    return definition_of(tools[question.tool]).parameters if question.tool in tools else {}

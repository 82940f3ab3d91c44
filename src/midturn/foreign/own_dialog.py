"""Dialogs about questions of ours that our server has an agent open: they are told by what they show, for a server has any name there."""

from __future__ import annotations

from typing import Final

from midturn.core.form.outgoing import Outgoing, heading
from midturn.core.json_value import JsonObject
from midturn.core.loose_json import members, text
from midturn.errors import QuestionError
from midturn.foreign.errand import Errand
from midturn.tools.ask_user_arguments import read_arguments

VIA: Final = "mcp"
"""How what our server asks reaches the inbox."""


def shows(dialog: JsonObject, errand: Errand) -> bool:
    """Say whether a dialog (`message`, `requested_schema`) is about an errand of our server: about all of its questions, or one of them."""
    if errand.asker.via != VIA:
        return False
    try:
        asked = read_arguments(errand.arguments).form.questions
    except QuestionError:  # a permission that was asked through our server
        return False
    properties = members(members(dialog.get("requested_schema")).get("properties")).keys()
    return any(
        text(dialog.get("message")) == heading(shown) and properties == Outgoing.of(shown).schema["properties"].keys()
        for shown in (asked, *([one] for one in asked))
    )

"""Everything a turn needs from the world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from midturn.journal import AnswerFeed, Journal
from midturn.ports import Clock, Consultant, Display, Model, Tool
from midturn.prompter import Prompter

if TYPE_CHECKING:
    from midturn.runtime.nesting import Host


class Services(Struct, frozen=True, kw_only=True):
    """Everything a turn needs from the world, in one frozen bundle; `ids` gives events their ids.

    `host` is the call around the turn, where that runs inside a tool.
    """

    model: Model
    consultant: Consultant
    tools: Mapping[str, Tool]
    journal: Journal
    answers: AnswerFeed
    prompter: Prompter | None
    display: Display
    clock: Clock
    ids: Iterator[str]
    host: Host | None = None

"""The parts of a prompt that take keys, and what they say to the whole."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol, TypeAlias

from midturn.core.reply import Reply
from midturn.prompts.keys import Command
from midturn.prompts.plain.dialog import Edit
from midturn.prompts.rich.key import Key
from midturn.prompts.rich.screen import Frame, Row, Size


class Sign(Enum):
    """What a face wants that is neither an answer nor a command."""

    MENU = auto()  # show the ways out
    LEAVE = auto()  # close this face
    RING = auto()  # that key does nothing here
    SUSPEND = auto()  # stop the job
    VIEW = auto()  # show everything on a screen of its own
    REDRAW = auto()  # draw everything anew, what was printed above included


Pressed: TypeAlias = Reply | Command | Edit | Sign | None
"""None: the key was for the face alone."""


class Face(Protocol):
    """Takes keys and draws the live rows."""

    @property
    def submits(self) -> frozenset[str] | None:
        """Which keys are dead while keys come too soon: those that submit a text; None where every key may answer."""
        ...

    @property
    def empty(self) -> bool:
        """Whether nothing has been typed: Ctrl-D then ends the turn."""
        ...

    def press(self, key: Key) -> Pressed:
        """Take a key."""
        ...

    def frame(self, size: Size) -> Frame:
        """Draw."""
        ...

    def retitle(self, title: str) -> None:
        """Put another last row of the question above: the window has another width."""
        ...

    def kept(self, size: Size) -> list[Row]:
        """Draw what stays to be seen while another face takes the keys: the question, and what there is to choose from."""
        ...

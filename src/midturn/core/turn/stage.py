"""The stages of a call, and every way from one to another. `Call` looks its moves up here: a way that is not in the table is no way."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Stage(StrEnum):  # strings, because they are keys of a table that is read at every move
    """Where a call is."""

    PERMIT = "PERMIT"
    RUN = "RUN"
    RETURN = "RETURN"
    DELIVER = "DELIVER"
    DONE = "DONE"


class Move(StrEnum):
    """What takes a call from one stage to another, or keeps it where it is."""

    RUN = "RUN"
    ASK = "ASK"
    RETURN = "RETURN"
    FINISH = "FINISH"
    END = "END"


QUESTIONS: Final[Mapping[Stage, str]] = {
    Stage.PERMIT: "may it run?",
    Stage.RUN: "its tool runs, and a coroutine may ask",
    Stage.RETURN: "it has returned what it asks, and runs again with the answers",
    Stage.DELIVER: "may the model read its result?",
    Stage.DONE: "it has its response, or was left",
}

STAGES: Final[Mapping[Stage, Mapping[Move, Stage]]] = {
    Stage.PERMIT: {
        Move.RUN: Stage.RUN,
        Move.RETURN: Stage.RETURN,  # whoever visits an open turn takes its form up without running anything
        Move.FINISH: Stage.DELIVER,  # a turn that is resumed has the result on record
        Move.END: Stage.DONE,
    },
    Stage.RUN: {
        Move.ASK: Stage.RUN,
        Move.RETURN: Stage.RETURN,
        Move.FINISH: Stage.DELIVER,
        Move.END: Stage.DONE,
    },
    Stage.RETURN: {
        Move.RUN: Stage.RUN,
        Move.END: Stage.DONE,
    },
    Stage.DELIVER: {
        Move.END: Stage.DONE,
    },
    Stage.DONE: {},
}

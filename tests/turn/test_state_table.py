"""The state table has a row for every input, effect, action and stage of the machine."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import get_args

import pytest

from midturn.turn import call, decision, form_run, queue, turn
from midturn.turn.decision import NextAction
from midturn.turn.inputs import Effect, Happened, Record
from midturn.turn.state_table import CALL, DECISION, FORM, ROWS, STAGES, TURN, Row, Stage

NAME = re.compile(r"`(\w+)`")


def named(rows: tuple[Row, ...], *columns: str) -> set[str]:
    """Return the names in backticks in some columns of `rows`."""
    return {
        name for row in rows for column in columns for name in NAME.findall(getattr(row, column))
    }


def every_row() -> tuple[Row, ...]:
    return tuple(row for _, part in ROWS for row in part)


def test_every_input_has_a_row() -> None:
    assert {kind.__name__ for kind in get_args(Happened)} <= named(every_row(), "input")


def test_every_effect_has_a_row() -> None:
    assert {kind.__name__ for kind in get_args(Effect) if kind is not Record} <= named(
        every_row(), "effects"
    )


def test_every_next_action_has_a_row_where_it_is_performed() -> None:
    assert {kind.__name__ for kind in get_args(NextAction)} <= named((*CALL, *FORM), "input")


def test_every_name_in_the_table_exists() -> None:
    known = {
        kind.__name__ for kind in (*get_args(Happened), *get_args(Effect), *get_args(NextAction))
    }
    known |= {
        "NoAnswer",
        "Unavailable",
        "Deferred",
        "rest",
        "is_ready",
        "unattended",
        "skip",
        "ask",
        "edit",
    }
    known |= {"backend_error", "assistant", "deadline", "escalates", "revises"}
    assert named(every_row(), "input", "condition", "then", "events", "effects") <= known


def test_rows_are_numbered_in_order() -> None:
    for letter, (_, part) in zip("TCFD", ROWS, strict=True):
        assert [row.number for row in part] == [
            f"{letter}{number}" for number in range(1, len(part) + 1)
        ]


def test_every_move_of_a_call_is_in_a_row() -> None:
    """Each pair of stages in `STAGES` has a row, and every row has a pair of `STAGES`."""
    moves = {
        (stage, to) for stage, ways in STAGES.items() for to in ways.values() if stage is not to
    }
    shown: set[tuple[Stage, Stage]] = set()
    for row in CALL:
        to = next((stage for stage in Stage if row.then.startswith(stage.value)), None)
        if to is not None and row.state != "any":
            shown |= {(Stage(state), to) for state in row.state.split(", ")}
    assert moves == {(one, other) for one, other in shown if one is not other}


def cases(module: ModuleType, function: str) -> Iterator[str]:
    """Yield the classes in the patterns of a function."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            for pattern in ast.walk(node):
                if isinstance(pattern, ast.MatchClass):
                    yield (
                        pattern.cls.attr
                        if isinstance(pattern.cls, ast.Attribute)
                        else ast.unparse(pattern.cls)
                    )


@pytest.mark.parametrize(
    ("module", "function", "rows"),
    [
        (turn, "_apply", (*TURN, *CALL, *FORM, *DECISION)),
        (turn, "_apply_to_call", CALL),
        (queue, "receive", DECISION),
        (queue, "_reply", DECISION),
        (call, "follow", (*CALL, *FORM)),
        (form_run, "accept", FORM),
    ],
)
def test_every_case_of_the_code_is_in_a_row(
    module: ModuleType, function: str, rows: tuple[Row, ...]
) -> None:
    found = set(cases(module, function))
    assert found, function
    assert found - {"EndedTurn"} <= named(rows, "input"), function


def test_every_result_of_a_reply_is_handled_by_the_queue() -> None:
    assert {kind.__name__ for kind in get_args(decision.ReplyResult)} == set(cases(queue, "take"))

"""The stories through every door: the same record, the same words to the model, the same end."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.channels.paired import only_paired_people_have_answered
from support.documents import ROOT, assert_section
from support.stories.stories import STORIES
from support.stories.table import TABLES, Cell, played, written

__all__ = ["only_paired_people_have_answered"]
pytestmark = pytest.mark.timeout(120)


def _parameter(cell: Cell) -> object:
    real = [pytest.mark.real(cell.door.part)] if cell.door.part else []
    marks = [*real, pytest.mark.together(cell.door.shares)] if cell.door.shares else real
    return pytest.param(cell, id=f"{cell.story.name}, {cell.door.name}", marks=marks)


@pytest.mark.parametrize("cell", [_parameter(cell) for cell in played()])
def test_a_story_comes_out_the_same_at_every_door(cell: Cell, tmp_path: Path) -> None:
    if reason := cell.impossible:
        pytest.skip(reason)
    assert cell.play(tmp_path) == cell.expected


def test_a_door_gives_reasons_for_stories_that_there_are() -> None:
    names = {story.name for story in STORIES}
    assert len(names) == len(STORIES)
    assert {door.name: set(door.lacks) - names for doors in TABLES.values() for door in doors if set(door.lacks) - names} == {}


def test_the_document_has_the_table() -> None:
    assert_section(ROOT / "docs" / "explanation" / "doors.md", "stories", f"\n{written()}\n\n")

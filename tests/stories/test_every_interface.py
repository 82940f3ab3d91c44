"""The stories through every interface: the same record, the same text for the model, the same
end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.channels.paired import only_paired_people_have_answered
from support.documents import ROOT, assert_section
from support.stories.stories import STORIES
from support.stories.table import TABLES, Cell, played, written

__all__ = ["only_paired_people_have_answered"]
pytestmark = pytest.mark.timeout(600)


def _parameter(cell: Cell) -> object:
    real = [pytest.mark.real(cell.interface.part)] if cell.interface.part else []
    marks = [*real, pytest.mark.together(cell.interface.shares)] if cell.interface.shares else real
    return pytest.param(cell, id=f"{cell.story.name}, {cell.interface.name}", marks=marks)


@pytest.mark.parametrize("cell", [_parameter(cell) for cell in played()])
def test_story_has_the_same_outcome_at_every_interface(cell: Cell, tmp_path: Path) -> None:
    if reason := cell.impossible:
        pytest.skip(reason)
    assert cell.play(tmp_path) == cell.expected


def test_reasons_refer_to_existing_stories() -> None:
    names = {story.name for story in STORIES}
    assert len(names) == len(STORIES)
    assert {
        interface.name: set(interface.lacks) - names
        for interfaces in TABLES.values()
        for interface in interfaces
        if set(interface.lacks) - names
    } == {}


def test_document_contains_the_table() -> None:
    assert_section(ROOT / "docs" / "explanation" / "interfaces.md", "stories", f"\n{written()}\n\n")

"""Every rule about who decides, run through every interface."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.channels.paired import only_paired_people_have_answered
from support.decisions.interfaces import INTERFACES
from support.decisions.rules import RULES
from support.decisions.table import Cell, cells, written
from support.documents import ROOT, assert_section

__all__ = ["only_paired_people_have_answered"]
pytestmark = pytest.mark.timeout(600)


def _parameter(cell: Cell) -> object:
    marks = [pytest.mark.real(cell.interface.part)] if cell.interface.part else []
    return pytest.param(cell, id=f"{cell.rule.name}, {cell.interface.name}", marks=marks)


@pytest.mark.parametrize("cell", [_parameter(cell) for cell in cells() if cell.reason is None])
def test_rule_holds_on_every_interface(cell: Cell, tmp_path: Path) -> None:
    if reason := cell.interface.missing():
        pytest.skip(reason)
    cell.play(tmp_path)


def test_reasons_refer_to_existing_rules() -> None:
    names = {rule.name for rule in RULES}
    assert len(names) == len(RULES)
    assert {
        interface.name: set(interface.lacks) - names
        for interface in INTERFACES
        if set(interface.lacks) - names
    } == {}


def test_document_contains_the_table() -> None:
    assert_section(
        ROOT / "docs" / "explanation" / "interfaces.md", "decisions", f"\n{written()}\n\n"
    )

"""The descriptions of the file tools agree with their functions."""

from __future__ import annotations

import json

from msgspec import to_builtins

from midturn.tools.fs.declared import FILE_TOOLS
from midturn.tools.fs.described import DESCRIBED, file_tools
from support.documents import is_updating


def test_the_documented_file_tools_match_their_functions() -> None:
    said = [{**to_builtins(tool.definition), "previews": tool.can_preview} for tool in FILE_TOOLS]
    text = json.dumps(said, indent=2, ensure_ascii=False) + "\n"
    if is_updating():
        DESCRIBED.write_text(text, encoding="utf-8")
    assert DESCRIBED.read_text(encoding="utf-8") == text, "set UPDATE_DOCUMENTS=1 to write it anew"


def test_each_file_tool_matches_its_functions_declaration() -> None:
    tools = file_tools()

    assert list(tools) == [tool.name for tool in FILE_TOOLS]
    for function in FILE_TOOLS:
        assert tools[function.name].definition == function.definition
        assert tools[function.name].inquiry_source() == function.inquiry_source()

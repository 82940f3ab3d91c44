import tomllib
from collections.abc import Mapping
from typing import Any, cast

from hypothesis import given, strategies as st

from midturn.config.tree import key_lines

DOCUMENT = '''# [not.a.table] = 1
title = """
[inside] = "text"
"""
[assistant]   # comment with ] and = and "
name = 'x = y'
model = { id = "a#b", parameters = { "odd key" = [1, { no = 2 }], top = 1.5 } }

[conversation.tools.'*'.detached]
run = "deny"
[conversation.tools."we\\u0069rd"]
command = [
  "a", # "quoted
  "]",
]
run   =   "ask"
questions.confirm.answer = 1979-05-27T07:32:00.999
'''


def test_each_key_and_table_has_the_line_where_it_is_first_written() -> None:
    lines = key_lines(DOCUMENT)

    assert lines["title",] == 2
    assert lines["assistant",] == 5
    assert lines["assistant", "name"] == 6
    assert lines["assistant", "model", "parameters", "odd key"] == 7
    assert lines["assistant", "model", "parameters", "top"] == 7
    assert lines["conversation", "tools", "*", "detached", "run"] == 10
    assert lines["conversation", "tools", "weird", "command"] == 12
    assert lines["conversation", "tools", "weird", "run"] == 16
    assert lines["conversation", "tools", "weird", "questions", "confirm", "answer"] == 17
    assert ("inside",) not in lines
    assert ("conversation", "tools", "weird", "no") not in lines


_names = st.sampled_from(["a", "b-1", "'*'", '"q u"', "'x.y'", '"[#]"'])
_values = st.sampled_from(
    [
        "1",
        "1.5",
        '"# = ["',
        "'{'",
        "[1, 2]",
        '["]", {z = "}"}]',
        '"""\nx = 1\n"""',
        "'''\n[t]\n'''",
        "true",
    ]
)


@given(st.lists(st.tuples(_names, _names, _values), max_size=6, unique_by=lambda row: row[:2]))
def test_scanner_finds_the_keys_of_the_parser(rows: list[tuple[str, str, str]]) -> None:
    """The scanner and the parser agree on every valid document."""
    text = "".join(
        f"\n[t{index}.{table}] # c\n{key} = {value} # c\n"
        for index, (table, key, value) in enumerate(rows)
    )

    assert set(key_lines(text)) == set(_paths(tomllib.loads(text)))


def _paths(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, value in table.items():
        found.append((*path, name))
        if isinstance(value, Mapping):
            found += _paths(cast("Mapping[str, Any]", value), (*path, name))
    return found

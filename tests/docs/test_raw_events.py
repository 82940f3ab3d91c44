"""Modules outside of `record` and `log` that match events by class.

What tells of a conversation matches the entries of `log/entries.py`, what reads a turn asks `TurnView`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.documents import ROOT

SOURCE = ROOT / "src" / "midturn"
EVENTS = SOURCE / "record" / "events.py"
READERS = (EVENTS.parent, SOURCE / "log")
MATCHING = {
    "turn/record.py": "the fold itself",
    "turn/view.py": "the reader that stands on it",
    "turn/people.py": "polls: what notes add up to",
    "turn/edits.py": "edits: what votes and proposals add up to",
    "turn/walk.py": "replay: what a response led to",
    "turn/visit.py": "opens a question or an approval",
    "turn/call.py": "writes the votes into what they have decided",
    "assistant/request.py": "copies a request to the model, with results of its own",
    "models/transcript.py": "the codec of what providers read",
    "runtime/driver.py": "shows what it has just recorded",
    "store/outside_answers.py": "takes answers and notes in",
    "store/batch.py": "takes the standing decision out of a line of another conversation",
    "runtime/foreign_turn.py": "finds the permissions of calls of another loop",
    "store/waited.py": "adds up times of answers and notes",
    "testing/adapters/scene.py": "compares what is recorded with what tools did",
    "turn/notices.py": "reads the outcomes of notices",
}
"""Modules that may do so, each with its reason; fewer are better."""


def _kinds() -> set[str]:
    """Return the names of the classes of events, and of the unions of them."""
    body = ast.parse(EVENTS.read_text(encoding="utf-8")).body
    classes = {one.name for one in body if isinstance(one, ast.ClassDef) and {ast.unparse(base) for base in one.bases} & {"Event"}}
    unions = {one.target.id: one.value for one in body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value}
    return classes | {name for name, value in unions.items() if classes & _names(value)}


def _names(node: ast.AST) -> set[str]:
    """Return the names in an expression, such as `Approval` and `ev.Approval`."""
    return {ast.unparse(one) for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute)}


def _matched(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the classes that a module looks for with `isinstance` and `match`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                yield from _names(kinds)
            case ast.MatchClass(cls=kind):
                yield from _names(kind)
            case ast.Compare(left=ast.Attribute(attr="__class__") | ast.Call(func=ast.Name(id="type")), comparators=[kinds]):
                yield from _names(kinds)
            case _:
                pass


def _imported(tree: ast.AST, kinds: set[str]) -> set[str]:
    """Return what a module calls the kinds: by the names that it imports, or by that of the vocabulary and theirs."""
    lists = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {one.asname or one.name for node in lists if node.module == "midturn.record.events" for one in node.names if one.name in kinds}
    whole = [one.asname or one.name for node in lists if node.module == "midturn.record" for one in node.names if one.name == "events"]
    return names | {f"{vocabulary}.{kind}" for vocabulary in whole for kind in kinds}


def _matching(kinds: set[str]) -> Iterator[Path]:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.parent in READERS or "midturn.record" not in text:
            continue
        tree = ast.parse(text)
        if (imported := _imported(tree, kinds)) and imported & {*_matched(tree)}:
            yield path.relative_to(SOURCE)


def test_few_modules_match_raw_events() -> None:
    """A module that reads the log in its own way has a rule of its own."""
    found = {path.as_posix() for path in _matching(_kinds())}

    assert found == set(MATCHING)

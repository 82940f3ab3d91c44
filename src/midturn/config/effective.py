"""What holds for a tool and its questions, from general to specific."""

from __future__ import annotations

from midturn.config.tree import KeyPath, Tree, branch
from midturn.core.json_value import overlay

TOOLS = ("conversation", "tools")
QUESTIONS = "questions"


def tool_tree(merged: Tree, name: str) -> Tree:
    """Return a tool's values: its own entry, field by field, then that of `'*'`."""
    own, star = branch(merged, *TOOLS, name), branch(merged, *TOOLS, "*")
    questions = _questions(branch(own, QUESTIONS), branch(star, QUESTIONS))
    rest = overlay(_but_questions(star), _but_questions(own))
    return {**rest, QUESTIONS: questions} if questions else rest


def effective_tree(merged: Tree) -> Tree:
    """Return all values, each tool's as they hold for it."""
    tools: Tree = {name: tool_tree(merged, name) for name in branch(merged, *TOOLS)}
    return {**merged, "conversation": {**branch(merged, "conversation"), "tools": tools}}


def spellings(path: KeyPath) -> list[KeyPath]:
    """Return the keys under which a value for `path` may stand, the most specific first."""
    found = [path]
    if path[:2] == TOOLS and path[3:4] == (QUESTIONS,):
        found = [(*path[:4], question, *path[5:]) for question in _specific(path[4:5])]
    if path[:2] == TOOLS:
        found = [(*one[:2], tool, *one[3:]) for tool in _specific(path[2:3]) for one in found]
    return found


def _specific(name: KeyPath) -> KeyPath:
    return name if name in {(), ("*",)} else (*name, "*")


def _questions(own: Tree, star: Tree) -> Tree:
    """Between tools the own entry comes first; within one, an id before `'*'` (the layers have been compared by then)."""
    everybody, anybody = branch(star, "*"), branch(own, "*")
    names = sorted({*own, *star})
    return {name: overlay(everybody, branch(star, name), anybody, branch(own, name)) for name in names}


def _but_questions(tool: Tree) -> Tree:
    return {name: found for name, found in tool.items() if name != QUESTIONS}

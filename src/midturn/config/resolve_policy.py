"""Who answers a tool's questions."""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec import UNSET

from midturn.config.assign import ANSWER
from midturn.config.tree import Tree, TreeEntry, branch, entry, plain
from midturn.core.json_value import Json
from midturn.core.names import ASK_USER
from midturn.core.routing.policy import DetachedPolicies, QuestionPolicy, ResultPolicy, RunPolicy, Target, TargetKind, ToolPolicy, Words
from midturn.core.source import ASSISTANT, Source


def tool_policy(name: str, tool: Tree) -> ToolPolicy:
    """Return what applies to the tool `name`, whose values are `tool`."""
    values = plain(tool)
    return ToolPolicy(
        source=ASSISTANT if name == ASK_USER else Source.tool(name),
        run=cast("RunPolicy", values["run"]),
        result=cast("ResultPolicy", values["result"]),
        detached=msgspec.convert(values["detached"], DetachedPolicies),
        questions={id_or_star: _question(branch(tool, "questions", id_or_star)) for id_or_star in branch(tool, "questions")},
        is_program="command" in values,
    )


def _question(fields: Tree) -> QuestionPolicy:
    answer = entry(fields, "answer")
    values = plain(fields)
    return QuestionPolicy(
        target=_target(branch(fields, "target")),
        answer=_answer(answer) if answer else UNSET,
        origin=answer.origin.name if answer else None,
        exclusive=cast("bool | None", values.get("exclusive")),
        prompt_label=cast("str | None", values.get("prompt_label")),
    )


def _answer(answer: TreeEntry) -> Json | Words:
    """Return a configured answer: a flag gives the words that were typed, everything else a value."""
    is_typed = answer.origin.name == ANSWER and isinstance(answer.value, str)
    return Words(str(answer.value)) if is_typed else answer.value


def _target(fields: Tree) -> Target:
    who = entry(fields, "")
    if who is None or who.value == "user":
        return Target()
    settings = plain(fields)
    kind: TargetKind = "assistant_with_escalation" if settings.pop("escalation", False) else "assistant"
    return Target(kind, settings or None)

"""Who answers a tool's questions."""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec import UNSET

from midturn.config.tree import Tree, branch, entry, plain
from midturn.core.routing.policy import DetachedPolicies, QuestionPolicy, ResultPolicy, RunPolicy, Target, TargetKind, ToolPolicy
from midturn.core.source import ASSISTANT, Source


def tool_policy(name: str, tool: Tree) -> ToolPolicy:
    """Return what applies to the tool `name`, whose values are `tool`."""
    values = plain(tool)
    return ToolPolicy(
        source=ASSISTANT if name == "ask_user" else Source.tool(name),
        run=cast("RunPolicy", values["run"]),
        result=cast("ResultPolicy", values["result"]),
        detached=msgspec.convert(values["detached"], DetachedPolicies),
        questions={id_or_star: _question(branch(tool, "questions", id_or_star)) for id_or_star in branch(tool, "questions")},
    )


def _question(fields: Tree) -> QuestionPolicy:
    answer = entry(fields, "answer")
    values = plain(fields)
    return QuestionPolicy(
        target=_target(branch(fields, "target")),
        answer=answer.value if answer else UNSET,
        origin=answer.origin.name if answer else None,
        exclusive=cast("bool | None", values.get("exclusive")),
        prompt_label=cast("str | None", values.get("prompt_label")),
    )


def _target(fields: Tree) -> Target:
    who = entry(fields, "")
    if who is None or who.value == "user":
        return Target()
    settings = plain(fields)
    kind: TargetKind = "assistant_with_escalation" if settings.pop("escalation", False) else "assistant"
    return Target(kind, settings or None)

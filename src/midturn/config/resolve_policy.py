"""Who answers a tool's questions, from general to specific (spec 2.3, 8.1)."""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec import UNSET

from midturn.config.merge import overlay
from midturn.config.tree import Tree, branch, entry, plain
from midturn.core.routing.policy import DetachedPolicies, QuestionPolicy, ResultPolicy, RunPolicy, Target, TargetKind, ToolPolicy
from midturn.core.source import ASSISTANT, Source


def tool_policy(name: str, own: Tree, star: Tree) -> ToolPolicy:
    """Resolve what applies to the tool `name`: its own entry, field by field, then that of `'*'`."""
    fields = plain(overlay(_but_questions(star), _but_questions(own)))
    return ToolPolicy(
        source=ASSISTANT if name == "ask_user" else Source.tool(name),
        run=cast("RunPolicy", fields["run"]),
        result=cast("ResultPolicy", fields["result"]),
        detached=msgspec.convert(fields["detached"], DetachedPolicies),
        questions=_questions(branch(own, "questions"), branch(star, "questions")),
    )


def _questions(own: Tree, star: Tree) -> dict[str, QuestionPolicy]:
    """Between tools the own entry comes first; within one, an id before `'*'` (the layers have been compared by then)."""
    general = (branch(star, "*"), branch(own, "*"))
    names = sorted({*own, *star} - {"*"})
    questions = {name: _question(overlay(general[0], branch(star, name), general[1], branch(own, name))) for name in names}
    anyone = overlay(*general)
    return {"*": _question(anyone), **questions} if anyone else questions


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


def _but_questions(tool: Tree) -> Tree:
    return {name: found for name, found in tool.items() if name != "questions"}

"""Converts the values of a script to midturn's values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any, cast

from msgspec import UNSET

from midturn.events.types import AnsweredBy, Escalated, Note, Reassigned, Reminded, Source, Vote
from midturn.question.answer_type import When
from midturn.question.form import Form
from midturn.question.json_value import Json, Limits, SecretValue
from midturn.question.people import Escalation, People
from midturn.question.question import Question
from midturn.question.reply import Answered, Edited, EndedTurn, Replied, Reply, Submitted, WentBack
from midturn.routing.policy import DetachedPolicies, QuestionPolicy, Target, ToolPolicy
from midturn.routing.rules import RunRule, RunRules
from midturn.turn.inputs import Answer, FormWanted, Given, NoAnswer, OnFailure
from midturn.turn.settings import TurnSettings
from support.turn_group import AT_PROMPT, LEAD, LOGINS, MEMBERS
from support.turn_people import EDITED, EDITED_RESULT, Does, Reaction, Says
from support.turn_script import (
    CONFIGURED,
    DEFAULTS,
    VALUES,
    Ask,
    GroupAction,
    How,
    PeopleGroup,
    Round,
    Rule,
    Script,
    Tool,
    Value,
    asks_of,
)

HOUR = timedelta(hours=1)
ON_FAILURE: dict[How, OnFailure] = {
    "return": "fail_call",
    "await": "fail_call",
    "told": "report",
    "try": "report_all",
}
MISFIT: dict[str, Reply] = {
    "tool": Answered(7),
    "run": WentBack(),
    "deliver": Submitted(),
    "review": Answered(False),
}


@cache
def question(ask: Ask, before: tuple[Ask, ...] = (), *, is_last: bool = True) -> Question[Any]:
    """Return a question. `before` are the earlier questions of its round. The last question
    carries the deadline of the round.
    """
    terms: dict[str, Any] = {
        "context": ask.context or None,
        "optional": ask.optional,
        "exclusive": ask.exclusive,
        "persistence": "turn" if ask.remembers else "none",
        "when": When(before[ask.gate[0]].id, ask.gate[1]) if ask.gate else None,
        "people": (
            people(ask.of, approvals=ask.of.approvals if ask.kind == "boolean" else 1)
            if ask.of
            else None
        ),
        "deadline": HOUR if is_last and ask.timed else None,
    }
    if ask.has_default:
        terms["default"] = DEFAULTS[ask.kind]
    match ask.kind:
        case "boolean":
            return Question.boolean(ask.id, ask.text, **terms)
        case "select":
            return cast(
                "Question[Any]", Question.select(ask.id, ask.text, ["red", "blue"], **terms)
            )
        case "secret":
            return Question.secret(ask.id, ask.text, **terms)
        case _:
            return Question.text(ask.id, ask.text, **terms)


def asking(asked: Round, tool: Tool) -> FormWanted:
    """Return the form that a tool asks."""
    last = len(asked.questions) - 1
    questions = [
        question(ask, asked.questions[:place], is_last=place == last)
        for place, ask in enumerate(asked.questions)
    ]
    return FormWanted(Form(questions, asked.review), Source.tool(tool.name), ON_FAILURE[asked.how])


def people(group: PeopleGroup, approvals: int) -> People:
    """Return the people that a question is put to."""
    escalate = [Escalation(timedelta(hours=1), [LEAD])]
    logins = {name: [login] for name, login in LOGINS.items()}
    names = {"members": {"ops": MEMBERS}, "logins": logins}
    return People(
        ask=["ops"],
        only=group.only,
        approvals=approvals,
        remind_after=HOUR,
        escalate=escalate,
        **names,
    )


def settings(script: Script, *, attached: bool) -> TurnSettings:
    """Return the settings of the turn."""
    tools = {name: _policy(tool, script) for name, tool in script.tools.items()}
    limits = Limits(
        repeats=script.limits.repeats,
        shown=script.limits.shown,
        rejected_cycles=script.limits.rejected_cycles,
        cycles=script.limits.cycles,
    )
    previewing = frozenset(name for name, tool in script.tools.items() if tool.previews)
    sits = AnsweredBy("user", via="terminal", user=AT_PROMPT)
    return TurnSettings(
        tools=tools,
        conversation="1",
        attached=attached,
        at_prompt=sits,
        limits=limits,
        previewing=previewing,
    )


def _policy(tool: Tool, script: Script) -> ToolPolicy:
    kinds = {
        ask.id: ask.kind
        for cycle in script.cycles
        for called in cycle
        for ask in asks_of(called.program)
    }
    detached = tool.detached
    return ToolPolicy(
        source=Source.tool(tool.name),
        run=tool.run,
        result=tool.result,
        detached=DetachedPolicies(detached["run"], detached["deliver"], detached["tool"]),
        questions={
            id: _question_policy(rule, kinds.get(id, "text")) for id, rule in tool.rules.items()
        },
        rules=(
            (RunRules((RunRule(people=people(tool.of, tool.of.approvals)),), ("config.toml:1",)),)
            if tool.of
            else ()
        ),
        deadline=HOUR.total_seconds() if tool.timed else None,
    )


def _question_policy(rule: Rule, kind: str) -> QuestionPolicy:
    answer: Any = {"": UNSET, "fits": CONFIGURED[kind], "misfits": 7}[rule.configured]
    return QuestionPolicy(Target(rule.target), answer=answer, exclusive=rule.exclusive)


def action_input(action: GroupAction, kind: str) -> tuple[Reply | Note, AnsweredBy]:  # noqa: PLR0911  one line per action
    """Return the input for an action on a question or approval, and the person who acts."""
    who = AnsweredBy("user", via=action.via, user=action.who or None)
    match action.what:
        case "yes" | "no":
            return Answered(VALUES[kind][action.what == "no"]), who
        case "edit":
            return Edited({"text": EDITED}), who
        case "reply":
            return Replied("Never mind."), who
        case "end":
            return EndedTurn(), who
        case "withdraw":
            return Vote(id="", withdrawn=True, answered_by=who), who
        case "pass":
            return Reassigned(id="", to=("bo",), answered_by=who), who
        case "remind":
            return Reminded(id="", number=1, to=("ops",)), who
        case "escalate":
            return Escalated(id="", number=1, to=(LEAD,)), who
        case "late":
            raise AssertionError("the time is nobody's to let pass")


def reply(deed: Reaction, kind: str) -> Reply:
    """Return the reply of a prompter for a reaction; `kind` is the kind of prompt."""
    match deed:
        case Says(True) if kind == "review":
            return Submitted()
        case Says(value, reason, remember):
            return Answered(value, reason=reason, remember=remember)
        case Does("back"):
            return WentBack()
        case Does("reply"):
            return Replied("Never mind.")
        case Does("edit"):
            return Edited({"text": EDITED}) if kind == "run" else Edited(EDITED_RESULT)
        case Does():
            return EndedTurn()


def plain(value: Json | SecretValue) -> Value:
    """Return an answer in the form that scripts use. The placeholder of a lost secret would
    appear as an empty text.
    """
    shown = value.reveal() if isinstance(value, SecretValue) else value
    assert shown is None or isinstance(shown, bool | str)
    return shown


def plain_answers(answers: Mapping[str, Json | SecretValue]) -> dict[str, Value]:
    """Return the answers that a tool run starts with."""
    return {id: plain(value) for id, value in answers.items()}


def plain_given(given: Given) -> dict[str, Value]:
    """Return the result of an await."""
    return {id: plain(g.value) if isinstance(g, Answer) else _none(g) for id, g in given.items()}


def _none(given: NoAnswer) -> str:
    return f"none: {given.reason}" + (f": {given.reply} {given.message}" if given.reply else "")

"""Standing decisions: answers that also apply to later questions or calls, and the events that
record them.
"""

from __future__ import annotations

from typing import Any

from midturn.errors import ConfigError
from midturn.events.types import AnsweredBy, InquiryRequest, Standing
from midturn.question.json_value import Json, JsonObject, SecretValue
from midturn.question.question import Question
from midturn.question.reply import SCOPES, Answered, Scope
from midturn.question.text import sha256
from midturn.routing.rules import exact_rule, read_run_rules
from midturn.turn.memory import scopes_of

PEOPLE_DECIDE = (
    "Only certain people may decide such calls, so an approval cannot apply to later calls. Answer"
    " without a scope."
)
_BY_RULE = (
    "A rule ({place}) requires approval for each such call, so an approval cannot apply to later"
    " calls. Answer without a scope, or change the rule."
)
_WRITES_NO_RULES = (
    "A permission for the project, or for everywhere, is a rule in your configuration, and this"
    " program does not write rules. Use the scope `conversation`, or answer with `midturn answer`"
    " at a terminal."
)
_CHANGED = (
    "The rule at {place} allowed such calls, but it was written for another command of {tool}, so"
    " it does not apply any more."
)


def changed(tool: str, place: str) -> str:
    """Return the message that a rule no longer applies, because its tool has changed."""
    return _CHANGED.format(tool=tool, place=place)


def scopes_for(arguments: Json, *, is_local: bool) -> tuple[Scope, ...]:
    """Return the scopes that a permission for calls with these arguments may have. A permission for
    a tool that the workspace defines never applies in other workspaces, where the tool may be
    different.
    """
    if exact_rule(arguments) is None:
        return ()
    return tuple(scope for scope in SCOPES if scope != "everywhere" or not is_local)


def refusal(
    scope: Scope, offered: tuple[Scope, ...], rule: str = "", *, has_people: bool = False
) -> str:
    """Return why an answer may not have a scope. Empty if it may. `rule` is the location of the
    rule that required approval.
    """
    if scope in offered:
        return ""
    if has_people:
        return PEOPLE_DECIDE
    if rule:
        return _BY_RULE.format(place=rule)
    if not offered:
        return f"This answer cannot have the scope `{scope}`: it applies only to this question."
    return (
        f"This answer cannot have the scope `{scope}`. Allowed:"
        f" {' or '.join(f'`{each}`' for each in offered)}."
    )


def rule_problem(rule: JsonObject | None, arguments: Json, definition: str) -> str:
    """Return why a rule does not permit a call with these arguments. Empty if it does."""
    try:
        (read,) = read_run_rules([rule])
    except ConfigError as error:
        return f"The rule cannot be used: {error}"
    if not read.is_about(definition):
        return "The rule was written for a different definition of the tool."
    return (
        ""
        if read.is_permissive and read.holds(arguments)
        else "The rule does not permit this call."
    )


def permission_event(
    id: str, tool: str, arguments: Json, reply: Answered, definition: str, who: AnsweredBy
) -> Standing | str:
    """Return the event that records a permission for the rest of the conversation, or the reason
    why it is not allowed.
    """
    if reply.scope != "conversation":
        return _WRITES_NO_RULES
    if reply.value is not True:
        return "Only an approval may have a scope: a refusal applies only to this call."
    if who.by != "user":
        return "Only a person may approve later calls."
    rule = reply.rule if reply.rule is not None else exact_rule(arguments)
    if why := rule_problem(rule, arguments, definition):
        return why
    return Standing(id=id, tool=tool, rule=rule, definition=definition, answered_by=who)


def answer_event(
    request: InquiryRequest, tool: str, question: Question[Any], reply: Answered, who: AnsweredBy
) -> Standing | str:
    """Return the event that records an answer for the rest of the conversation, or the reason why
    it is not allowed.
    """
    if reply.scope is None or isinstance(reply.value, SecretValue):
        return "A secret is never remembered."
    if why := refusal(
        reply.scope, tuple(scopes_of(question)), has_people=request.people is not None
    ):
        return why
    if who.by != "user":
        return "Only a person may answer for the rest of the conversation."
    return Standing(
        id=request.id,
        tool=tool,
        question_id=request.question_id,
        question_sha256=sha256(request.question.key),
        answer=reply.value,
        answered_by=who,
    )

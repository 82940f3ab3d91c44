"""Decisions about calls of other people's agents, and the words in which these read them.

A person's no, and only that, reads `The user said no`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from midturn.events.open_question import ProcessMark
from midturn.question.json_value import Json, JsonObject, canonical, members, text
from midturn.question.text import sha256
from midturn.routing.messages import user_added

# ----------------------------------------------------------------------------------------------------------------------
# Decisions


class Approved(Struct, frozen=True):
    """The call may run; with `arguments`, where the person changed them. `always` is what the agent is to keep of it, as it was shown.

    `rule` is the place of the rule that lets it run, where no person has decided.
    """

    arguments: JsonObject | None = None
    always: str = ""
    rule: str = ""


class Refused(Struct, frozen=True):
    """The person said no, and perhaps why; or a `rule` did, at this place."""

    reason: str | None = None
    rule: str = ""


class FormCompleted(Struct, frozen=True):
    """The answers, by question id; None where one was skipped. `reasons` is what was said with them, by the same ids and in their order."""

    answers: Mapping[str, Json]
    reasons: Mapping[str, str] = {}


class RepliedTo(Struct, frozen=True):
    """The person said something instead of answering; `answers` are those that they had given before, by the text of the question."""

    words: str = ""
    answers: Mapping[str, Json] = {}


class TurnStopped(Struct, frozen=True):
    """The person ended the agent's turn."""


class DecidedElsewhere(Struct, frozen=True):
    """It was decided at the agent's own prompt, or the agent has gone on without it: what was said is unknown here."""


Decided: TypeAlias = Approved | Refused | FormCompleted | RepliedTo | TurnStopped | DecidedElsewhere


# ----------------------------------------------------------------------------------------------------------------------
# Words


NOBODY = (
    "Nobody has answered yet. The question stays open: the user finds it in the inbox. "
    "This is not a no, and not a yes. Do not try the same thing another way; go on without it, or end your turn."
)
ENDED = "The user ended the turn. Stop here."
ELSEWHERE = "it was decided at the agent's own prompt"
ALLOWED = "The user allowed it."
ALLOWED_BY_RULE = "A rule of the user's configuration allows it."
FAILED = "midturn could not ask the user, so nobody has decided. This is not a no. Do not try the same thing another way."

UNKNOWN = "midturn could not look or write just now, so nobody's answer is known. This is not a no. Ask again later."


def gone_on(name: str) -> str:
    """Say why something is over that was to stay open for an agent."""
    return f"{name} has gone on with something else"


def unasked(asked: Sequence[str], why: str) -> str:
    """Say of one thing or several that no one was asked about them, whatever the agent has told its model of that."""
    more = f" and {len(asked) - 1} more" if len(asked) > 1 else ""
    return f"midturn: {asked[0]}{more}: {FAILED} ({why})"


def refused(no: Refused) -> str:
    """Say that a person said no, and why; or that a rule did."""
    reason = no.reason
    if no.rule:
        return f"A rule of the user's configuration does not allow this call{f': {reason}' if reason else '.'}"
    return f"The user said no: {reason}" if reason else "The user said no."


def replied(outcome: RepliedTo) -> str:
    """Say what a person said instead of answering, and what they had answered before."""
    said = f", and said: {outcome.words}" if outcome.words else ", and wants to talk about it first."
    before = [f"Answered before that: {question} {answer_in_words(answer)}" for question, answer in outcome.answers.items()]
    return "\n".join([f"The user did not choose{said}", *before])


def edited(arguments: Json) -> str:
    """Say that a call may run only with other arguments, where the agent takes none from a hook."""
    return f"The user allows this call only with other arguments. Call the tool again with exactly these: {canonical(arguments).decode()}"


def answer_in_words(value: Json) -> str:
    """Return an answer as a person would say it."""
    match value:
        case None:
            return "(no answer)"
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case list() | tuple():
            return ", ".join(_one_of_several(answer_in_words(one)) for one in value)
        case _:
            other = text(members(value).get("other"))
            return other or canonical(value).decode()


def _one_of_several(label: str) -> str:
    """Return a label as it is listed between commas: in quotes if it has a comma or quotes itself, so that a list has one meaning."""
    return canonical(label).decode() if "," in label or '"' in label else label


def answer_with_reason(given: FormCompleted, id: str) -> str:
    """Return an answer as a person would say it, with what they added to it."""
    said, reason = answer_in_words(given.answers.get(id)), given.reasons.get(id)
    return f"{said} ({user_added(reason)})" if reason else said


def labels_of(answer: Json) -> list[Json]:
    """Return an answer as agents take it that have lists of labels: what was chosen, or own words; none where it was skipped."""
    given = answer if isinstance(answer, list | tuple) else [] if answer is None else [answer]
    return [answer_in_words(one) for one in given]


def decided(outcome: Decided) -> str:
    """Say for the record what came of a call."""
    match outcome:
        case Approved(arguments=None, rule=rule) if rule:
            return ALLOWED_BY_RULE
        case Approved(arguments=None, always=always):
            return f"{ALLOWED} And from now on: {always}." if always else ALLOWED
        case FormCompleted(answers):
            return canonical(answers).decode()
        case _:
            return told("The call", outcome).removeprefix("midturn: ")


def denial(outcome: Decided) -> str:
    """Return why a call may not run, for agents that take nothing but that; nothing where it may, or where it was not decided here."""
    match outcome:
        case Approved(arguments=None) | DecidedElsewhere() | FormCompleted():
            return ""
        case Approved(arguments=arguments):
            return edited(arguments)
        case Refused():
            return refused(outcome)
        case RepliedTo():
            return replied(outcome)
        case TurnStopped():
            return ENDED


def told(asked: str, outcome: Decided) -> str:  # noqa: PLR0911  one return an outcome
    """Say what became of something that was asked earlier."""
    match outcome:
        case Approved(arguments=None):
            return f"midturn: the user now allows {asked}. Run it again."
        case Approved(arguments=arguments):
            return f"midturn: {asked}: {edited(arguments)}"
        case Refused():
            return f"midturn: {asked}: {refused(outcome)}"
        case FormCompleted(answers, reasons):
            listed = "; ".join(f"{key}: {answer_in_words(value)}" for key, value in answers.items())
            said = answer_in_words(next(iter(answers.values()))) if len(answers) == 1 else listed
            return "\n".join([f"midturn: {asked} was answered by the user: {said}", *map(user_added, reasons.values())])
        case RepliedTo():
            return f"midturn: {asked}: {replied(outcome)}"
        case TurnStopped():
            return f"midturn: {asked}: {ENDED}"
        case DecidedElsewhere():
            return f"midturn: {asked}: {ELSEWHERE}."


def added(asked: str, reasons: Sequence[str]) -> str:
    """Say what a person added to their answers."""
    return "\n".join(f"midturn: {asked}: {user_added(reason)}" for reason in reasons)


# ----------------------------------------------------------------------------------------------------------------------
# Names and texts from outside, as our questions take them


_FOREIGN = r"[^A-Za-z0-9_-]+"
_LONGEST = 64
_OURS = frozenset({"assistant", "user", "you", "me", "midturn", "system", "tool", "human"})
_SHOWN = 40
_NAMELESS = "process-"


def tool_name(name: str) -> str:
    """Return a name that a tool of ours could have; different names stay different."""
    plain = re.sub(_FOREIGN, "_", name) or "tool"
    if plain == name and len(name) <= _LONGEST and name.casefold() != "assistant":
        return name
    return f"{plain[: _LONGEST - 9]}_{sha256(name.encode('utf-8', 'surrogatepass'))[:8]}"


def nameless_session(process: ProcessMark) -> str:
    """Return what stands for a session that its agent gives no name: the process that asks for it."""
    return f"{_NAMELESS}{process.pid}-{process.started}"


def is_nameless(session: str) -> bool:
    """Say whether a session is one that its agent gives no name."""
    return session.startswith(_NAMELESS)


def asker_name(name: str, otherwise: str) -> str:
    """Return a name that says who asks: never one that a person would take for us, for a model of ours, or for themselves."""
    plain = " ".join(re.sub(_FOREIGN, " ", name).split())[:_SHOWN].strip()
    return f"{otherwise} {plain}".strip() if not plain or plain.casefold() in _OURS else plain

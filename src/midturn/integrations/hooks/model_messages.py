"""Decisions about calls by other agents, and the messages that inform the agents' models about
these decisions.

The text `The user said no` is used only if a person refused.
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

# --------------------------------------------------------------------------------------------------
# Decisions


class Approved(Struct, frozen=True):
    """The call may run.

    `arguments` contains the changed arguments if the person changed them. `always` is the text of
    the standing permission that the person chose. If a rule allowed the call, `rule` is its
    location.
    """

    arguments: JsonObject | None = None
    always: str = ""
    rule: str = ""


class Refused(Struct, frozen=True):
    """The call was refused. `rule` is the location of the rule that refused it, or empty if a
    person refused it.
    """

    reason: str | None = None
    rule: str = ""


class FormCompleted(Struct, frozen=True):
    """Answers by question id. The answer to a skipped question is None. `reasons` contains the
    reasons that the person gave, by question id.
    """

    answers: Mapping[str, Json]
    reasons: Mapping[str, str] = {}


class RepliedTo(Struct, frozen=True):
    """A person sent a message instead of answering. `answers` contains the earlier answers by
    question text.
    """

    words: str = ""
    answers: Mapping[str, Json] = {}


class TurnStopped(Struct, frozen=True):
    """A person ended the agent's turn."""


class DecidedElsewhere(Struct, frozen=True):
    """The call was decided at the agent's own prompt, or the agent continued without a decision.
    midturn does not know the decision.
    """


Decided: TypeAlias = Approved | Refused | FormCompleted | RepliedTo | TurnStopped | DecidedElsewhere


# --------------------------------------------------------------------------------------------------
# Messages


NOBODY = (
    "Nobody has answered yet. The question stays open: the user finds it in the inbox. This is not"
    " a no, and not a yes. Do not try the same thing another way; go on without it, or end your"
    " turn."
)
ENDED = "The user ended the turn. Stop here."
ELSEWHERE = "it was decided at the agent's own prompt"
ALLOWED = "The user allowed it."
ALLOWED_BY_RULE = "A rule of the user's configuration allows it."
FAILED = (
    "midturn could not ask the user, so nobody has decided. This is not a no. Do not try the same"
    " thing another way."
)

UNKNOWN = (
    "midturn could not look or write just now, so nobody's answer is known. This is not a no. Ask"
    " again later."
)


def gone_on(name: str) -> str:
    """Return the reason for closing an open question: the agent continued without it."""
    return f"{name} has gone on with something else"


def unasked(asked: Sequence[str], why: str) -> str:
    """Return the message that no person was asked about some requests. The agent may have told its
    model that the user refused them.
    """
    more = f" and {len(asked) - 1} more" if len(asked) > 1 else ""
    return f"midturn: {asked[0]}{more}: {FAILED} ({why})"


def refused(no: Refused) -> str:
    """Return the message about a refusal by a person or by a rule."""
    reason = no.reason
    if no.rule:
        return (
            "A rule of the user's configuration does not allow this"
            f" call{f': {reason}' if reason else '.'}"
        )
    return f"The user said no: {reason}" if reason else "The user said no."


def replied(outcome: RepliedTo) -> str:
    """Return the text for the model if a person sent a message instead of answering. It also
    contains the earlier answers.
    """
    said = (
        f", and said: {outcome.words}" if outcome.words else ", and wants to talk about it first."
    )
    before = [
        f"Answered before that: {question} {answer_in_words(answer)}"
        for question, answer in outcome.answers.items()
    ]
    return "\n".join([f"The user did not choose{said}", *before])


def edited(arguments: Json) -> str:
    """Return the message that a call may run only with other arguments. Used for agents that do not
    accept changed arguments from a hook.
    """
    return (
        "The user allows this call only with other arguments. Call the tool again with exactly"
        f" these: {canonical(arguments).decode()}"
    )


def answer_in_words(value: Json) -> str:
    """Return an answer as readable text."""
    match value:
        case None:
            return "(no answer)"
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case list() | tuple():
            return ", ".join(_quoted_label(answer_in_words(each)) for each in value)
        case _:
            other = text(members(value).get("other"))
            return other or canonical(value).decode()


def _quoted_label(label: str) -> str:
    """Return a label for a comma-separated list. Labels with commas or quotes are quoted, so
    that the list is unambiguous.
    """
    return canonical(label).decode() if "," in label or '"' in label else label


def answer_with_reason(given: FormCompleted, id: str) -> str:
    """Return an answer as readable text, with its reason."""
    said, reason = answer_in_words(given.answers.get(id)), given.reasons.get(id)
    return f"{said} ({user_added(reason)})" if reason else said


def labels_of(answer: Json) -> list[Json]:
    """Return an answer as a list of labels: the chosen options or free text. Empty if the
    question was skipped.
    """
    given = answer if isinstance(answer, list | tuple) else [] if answer is None else [answer]
    return [answer_in_words(each) for each in given]


def recorded_content(outcome: Decided) -> str:
    """Return the text that is recorded as the result of a call."""
    match outcome:
        case Approved(arguments=None, rule=rule) if rule:
            return ALLOWED_BY_RULE
        case Approved(arguments=None, always=always):
            return f"{ALLOWED} And from now on: {always}." if always else ALLOWED
        case FormCompleted(answers):
            return canonical(answers).decode()
        case _:
            return outcome_message("The call", outcome).removeprefix("midturn: ")


def denial(outcome: Decided) -> str:
    """Return the reason for a denial, which is the only result that some agents accept. Empty if
    the call may run or was not decided in midturn.
    """
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


def outcome_message(asked: str, outcome: Decided) -> str:  # noqa: PLR0911  one return per outcome
    """Return the message about the outcome of an earlier request."""
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
            return "\n".join(
                [
                    f"midturn: {asked} was answered by the user: {said}",
                    *map(user_added, reasons.values()),
                ]
            )
        case RepliedTo():
            return f"midturn: {asked}: {replied(outcome)}"
        case TurnStopped():
            return f"midturn: {asked}: {ENDED}"
        case DecidedElsewhere():
            return f"midturn: {asked}: {ELSEWHERE}."


def added(asked: str, reasons: Sequence[str]) -> str:
    """Return a message with the reasons that a person added to the answers."""
    return "\n".join(f"midturn: {asked}: {user_added(reason)}" for reason in reasons)


# --------------------------------------------------------------------------------------------------
# Names and texts of other programs


_INVALID_CHARACTERS = r"[^A-Za-z0-9_-]+"
_MAX_TOOL_NAME_LENGTH = 64
_RESERVED_NAMES = frozenset(
    {"assistant", "user", "you", "me", "midturn", "system", "tool", "human"}
)
_MAX_ASKER_NAME_LENGTH = 40
_PROCESS_PREFIX = "process-"


def tool_name(name: str) -> str:
    """Return a valid tool name. Different names stay different."""
    plain = re.sub(_INVALID_CHARACTERS, "_", name) or "tool"
    if plain == name and len(name) <= _MAX_TOOL_NAME_LENGTH and name.casefold() != "assistant":
        return name
    return (
        f"{plain[: _MAX_TOOL_NAME_LENGTH - 9]}_{sha256(name.encode('utf-8', 'surrogatepass'))[:8]}"
    )


def session_of_process(process: ProcessMark) -> str:
    """Return the session name for an agent that sends none, derived from the asking process."""
    return f"{_PROCESS_PREFIX}{process.pid}-{process.started}"


def is_process_session(session: str) -> bool:
    """Return whether `session_of_process` returned this session name."""
    return session.startswith(_PROCESS_PREFIX)


def asker_name(name: str, prefix: str) -> str:
    """Return a display name for an asking program that cannot be confused with midturn, midturn's
    model or the user.
    """
    plain = " ".join(re.sub(_INVALID_CHARACTERS, " ", name).split())[
        :_MAX_ASKER_NAME_LENGTH
    ].strip()
    return (
        f"{prefix} {plain}".strip() if not plain or plain.casefold() in _RESERVED_NAMES else plain
    )

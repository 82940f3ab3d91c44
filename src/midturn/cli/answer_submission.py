"""Convert the text typed for `midturn answer` to an answer, and submit it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from midturn.cli.command_context import CommandContext
from midturn.errors import AnswerError, Problem
from midturn.events.open_question import OpenQuestion
from midturn.events.types import AnsweredBy
from midturn.question.answer import options_listed
from midturn.question.answer_type import BooleanType, MultiSelectType, SelectType
from midturn.question.decision_words import ClearDecision, Unclear, read_decision
from midturn.question.form import Form
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json
from midturn.stores.answer_service import Receipt
from midturn.stores.store import ConversationStore
from midturn.terminal.prompts.accept import argument_problems
from midturn.terminal.prompts.answer_text import value_text

# --------------------------------------------------------------------------------------------------
# VALUE on the command line. It is parsed like text typed at a prompt. Text with a typo is rejected,
# and never interpreted as another answer.


def answer_of(question: OpenQuestion, words: str) -> Json:
    """Parse text as an answer to a question that does not ask for a secret.

    Raises:
        AnswerError: The text is not a valid answer.
    """
    try:
        return cast("Json", question.question.parse(words))
    except AnswerError as error:
        kind = question.question.answer_type
        if isinstance(kind, SelectType | MultiSelectType) and kind.allow_other:
            raise AnswerError(
                [*error.problems, Problem("", "To answer in your own words, use `--other TEXT`.")]
            ) from None
        raise


def own_words(question: OpenQuestion, words: str) -> Json:
    """Return free text (`--other`) as an answer.

    Raises:
        AnswerError: The question does not accept free text.
    """
    match question.question.answer_type:
        case SelectType(allow_other=True):
            return {"other": words}
        case MultiSelectType(allow_other=True):
            return [{"other": words}]
        case SelectType() | MultiSelectType() as kind:
            raise AnswerError(
                [Problem("", f"This question accepts only these options: {options_listed(kind)}")]
            )
        case _:
            raise AnswerError(
                [Problem("", "This question has no options. Pass a VALUE instead of `--other`.")]
            )


_SEND_OR_REPLY = (
    "These are the answers to a form. y sends them, `--reply TEXT` sends a message instead. To"
    " change an answer, omit VALUE."
)
VIA = "inbox"
TURN_ENDED: Final = "midturn: the turn of conversation {} was ended."
"""Message printed after a command ended the turn of a conversation."""
_REMEMBERED = {"always": True, "never": False}


class TypedValue(Struct, frozen=True):
    """An answer to a question, or a map of answers to a form, with the reason that was typed with
    it.
    """

    json: Json
    reason: str | None = None


class TypedDecision(Struct, frozen=True):
    """A decision: run a call, deliver a result, or send the answers of a form.

    `remember` makes the decision permanent. `reason` is the reason typed with the decision.
    """

    approve: bool
    remember: bool | str = False
    reason: str | None = None


class TypedEdit(Struct, frozen=True):
    """An edit: the arguments or the content to use instead of the proposed ones."""

    json: Json


Typed: TypeAlias = TypedValue | TypedDecision | TypedEdit


def read_value(question: OpenQuestion, words: str) -> Typed:
    """Parse VALUE.

    For an approval it is `y`, `n` or `{"edit": …}`. For a form it can also be an object of answers.
    Otherwise it is an answer.

    Raises:
        AnswerError: The text is not a valid VALUE for this question.
    """
    if question.kind != "tool":
        return _decision(question, words)
    if question.form is not None and words.lstrip().startswith("{"):
        return TypedValue(_json(words))
    if (
        isinstance(question.question.answer_type, BooleanType)
        and (decision := _decision_in(words)) is not None
    ):
        return TypedValue(decision.answer, decision.reason)
    return TypedValue(answer_of(question, words))


def _decision_in(words: str) -> ClearDecision | None:
    """Parse yes, or no, or no with a reason. Return None for any other text.

    Raises:
        AnswerError: The text starts with yes or no and continues, so its meaning is unclear.
    """
    found = read_decision(words)
    if not isinstance(found, Unclear):
        return found
    bare = "yes" if found.answer else "no"
    instead = f"To add a note, answer `{bare} --reason TEXT`."
    also = "" if found.answer else ' "no, because …" is the answer no with a reason.'
    message = (
        f"{words!r:.200} starts with {bare} and continues, so nothing was recorded. The question is"
        f" still open. {instead}{also}"
    )
    raise AnswerError([Problem("", message)])


def recorded_rows(question: OpenQuestion, submitted: Typed) -> list[tuple[str, str]]:
    """Return the recorded answers for the person who answered, one row per question."""
    text = question.question.text
    match submitted:
        case TypedDecision(approve, remember, reason):
            return [
                (
                    text,
                    (
                        f"{'yes' if approve else 'no'}{', from now on' if remember else ''}{f', because {reason}' if reason else ''}"
                    ),
                )
            ]
        case TypedEdit():
            return [(text, "yes, edited")]
        case TypedValue(json) if question.form is not None and isinstance(json, dict):
            asked = {
                asked.id: asked
                for asked in Form.from_record(list(question.form.questions)).questions
            }
            return [
                (asked[name].text, value_text(asked[name], value))
                for name, value in json.items()
                if name in asked
            ]
        case TypedValue(json):
            asked_alone = question.question.asked(question.id)
            return [(text, value_text(asked_alone, cast("Json", asked_alone.check(json))))]


class Submitting:
    """Submits an answer to one question in a store."""

    def __init__(
        self,
        store: ConversationStore,
        question: OpenQuestion,
        who: AnsweredBy,
        reason: str | None = None,
        digest: str = "",
    ) -> None:
        """Prepare an answer by `who`.

        `digest` identifies the version that `who` saw. It may be a prefix.
        """
        self._store = store
        self._digest = question.whole_digest(digest)
        self._id = question.id
        self._edits = "content" if question.kind == "deliver" else "arguments"
        self._who = who
        self._reason = reason

    def value(self, submitted: Typed) -> Receipt:
        """Submit an answer, a decision or an edit."""
        match submitted:
            case TypedValue(json, reason):
                return self._answer(value=json, reason=self._reason_or(reason))
            case TypedDecision(approve, remember, reason):
                return self._answer(
                    approve=approve,
                    remember=remember,
                    reason=self._reason_or(reason),
                    digest=self._digest,
                )
            case TypedEdit(json):
                return self._answer(**{self._edits: json}, reason=self._reason, digest=self._digest)

    def _reason_or(self, typed: str | None) -> str | None:
        if typed is not None and self._reason is not None:
            raise AnswerError(
                [
                    Problem(
                        "", "The answer contains a reason, and `--reason` is another. Use only one."
                    )
                ]
            )
        return typed if self._reason is None else self._reason

    def reply(self, words: str) -> Receipt:
        """Send a message to the model instead of an answer."""
        return self._answer(reply=words)

    def cancel(self) -> Receipt:
        """End the turn."""
        return self._answer(cancel=True)

    def _answer(self, **how: Any) -> Receipt:
        return self._store.answer_sync(self._id, via=VIA, user=self._who.user, **how)


def _decision(question: OpenQuestion, words: str) -> Typed:
    typed, decision = " ".join(words.lower().split()), _decision_in(words)
    if question.kind == "review":
        if decision is not None and decision.answer:
            return TypedDecision(approve=True)
        raise AnswerError([Problem("", _SEND_OR_REPLY)])
    if decision is not None:
        return TypedDecision(decision.answer, reason=decision.reason)
    offered = _permanent_options(question)
    if permanent := offered.get(typed):
        return TypedDecision(approve=True, remember=permanent)
    if typed.partition(" ")[0] == "always" and offered:
        listed = "; ".join(f"`{value}` to {permanent}" for value, permanent in offered.items())
        raise AnswerError([Problem("", f"Choose what to allow permanently: {listed}.")])
    if typed in _REMEMBERED:
        return TypedDecision(_REMEMBERED[typed], remember=True)
    edit = _json(words) if words.lstrip().startswith("{") else None
    if isinstance(edit, dict) and list(edit) == ["edit"]:
        return TypedEdit(edit["edit"])
    raise AnswerError(
        [
            Problem(
                "",
                'This is an approval. Expected y, n, always, never, or {"edit": …} with a'
                " replacement.",
            )
        ]
    )


def _permanent_options(question: OpenQuestion) -> Mapping[str, str]:
    """Return the permanent permissions that another agent offers.

    The keys are the values to type: `always`, or `always 1`, `always 2`, …
    """
    offered = question.asker.always if question.asker else ()
    if len(offered) == 1:
        return {"always": offered[0]}
    return {f"always {number}": permanent for number, permanent in enumerate(offered, 1)}


def _json(words: str) -> Json:
    try:
        return read_json(words)
    except NotJson as error:
        raise AnswerError([Problem("", f"Invalid JSON: {error}.")]) from error


# --------------------------------------------------------------------------------------------------
# Edited arguments of a call. They are validated with the tool's schema before they are submitted.


def as_edited(question: OpenQuestion, typed: Typed) -> OpenQuestion:
    """Return the question with the edit applied, or the unchanged question if there is no edit."""
    if not isinstance(typed, TypedEdit):
        return question
    if question.kind == "deliver":
        return replace(question, request=replace(question.request, content=str(typed.json)))
    return replace(
        question, arguments=typed.json, question=replace(question.question, context=None)
    )


def check_edit(place: CommandContext, question: OpenQuestion, typed: Typed) -> None:
    """Validate an edit.

    Raises:
        AnswerError: The edit has the wrong type, or does not match the parameters of the tool.
    """
    if not isinstance(typed, TypedEdit) or question.kind not in ("run", "deliver"):
        return
    if question.kind == "deliver":
        if not isinstance(typed.json, str):
            raise AnswerError([Problem("", 'The edit of a result must be text: {"edit": "…"}.')])
        return
    if not isinstance(typed.json, Mapping):
        raise AnswerError(
            [Problem("", 'The edit of arguments must be an object: {"edit": {"NAME": …}}.')]
        )
    from midturn.cli.answer_terminal import (
        parameters_of,
    )  # imported lazily: edits are rare, and this module reads the configuration

    problems = argument_problems(parameters_of(place, question), typed.json)
    if problems:
        raise AnswerError(
            [
                Problem("", f"Invalid arguments for {question.tool}; nothing was recorded."),
                *problems,
            ]
        )

"""From what was typed to what the store takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from midturn.cli.command_context import Place
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

# ----------------------------------------------------------------------------------------------------------------------
# VALUE on the command line: read like typed text everywhere. A typo means nothing


def answer_of(question: OpenQuestion, words: str) -> Json:
    """Read the words as an answer to a question that is no secret.

    Raises:
        AnswerError: They mean none.
    """
    try:
        return cast("Json", question.question.parse(words))
    except AnswerError as error:
        kind = question.question.answer_type
        if isinstance(kind, SelectType | MultiSelectType) and kind.allow_other:
            raise AnswerError([*error.problems, Problem("", "For something else, say so: `--other TEXT`.")]) from None
        raise


def own_words(question: OpenQuestion, words: str) -> Json:
    """Read the words as the person's own (`--other`).

    Raises:
        AnswerError: The question takes none.
    """
    match question.question.answer_type:
        case SelectType(allow_other=True):
            return {"other": words}
        case MultiSelectType(allow_other=True):
            return [{"other": words}]
        case SelectType() | MultiSelectType() as kind:
            raise AnswerError([Problem("", f"Only these options are accepted. {options_listed(kind)}")])
        case _:
            raise AnswerError([Problem("", "This question has no options, and so no other words: give a VALUE.")])


_SEND_OR_NOT = (
    "These are the answers to a form: y sends them, `--reply TEXT` says something else instead; to go back to one, answer without a VALUE."
)
VIA = "inbox"
_FROM_NOW_ON = {"always": True, "never": False}


class TypedValue(Struct, frozen=True):
    """An answer to a question, or a map of answers to a form. `reason` was typed with it."""

    json: Json
    reason: str | None = None


class TypedDecision(Struct, frozen=True):
    """Whether a call may run, a result may be delivered, answers may be sent; `remember` goes beyond this once.

    `reason` was typed with it.
    """

    approve: bool
    remember: bool | str = False
    reason: str | None = None


class TypedEdit(Struct, frozen=True):
    """The arguments or the content to use instead."""

    json: Json


Typed: TypeAlias = TypedValue | TypedDecision | TypedEdit


def read_value(question: OpenQuestion, words: str) -> Typed:
    """Read VALUE: for an approval `y`, `n` or `{"edit": …}`; for a form also a map of answers; else an answer.

    Raises:
        AnswerError: The words fit none of these.
    """
    if question.kind != "tool":
        return _decision(question, words)
    if question.form is not None and words.lstrip().startswith("{"):
        return TypedValue(_json(words))
    if isinstance(question.question.answer_type, BooleanType) and (decision := _decision_in(words)) is not None:
        return TypedValue(decision.answer, decision.reason)
    return TypedValue(answer_of(question, words))


def _decision_in(words: str) -> ClearDecision | None:
    """Read a bare yes or no, or a no with its reason; None if the words are neither.

    Raises:
        AnswerError: They begin with a yes or a no and say more: nothing is recorded.
    """
    found = read_decision(words)
    if not isinstance(found, Unclear):
        return found
    bare = "yes" if found.answer else "no"
    instead = f"For a {bare} with a note, answer `{bare} --reason TEXT`."
    also = "" if found.answer else ' "no, because …" is a no with its reason.'
    message = f"{words!r:.200} begins with a {bare} and says more, so it decides nothing: the question is still open. {instead}{also}"
    raise AnswerError([Problem("", message)])


def recorded_rows(question: OpenQuestion, submitted: Typed) -> list[tuple[str, str]]:
    """Return what was recorded, question by question, to be shown to the person who answered."""
    text = question.question.text
    match submitted:
        case TypedDecision(approve, remember, reason):
            return [(text, f"{'yes' if approve else 'no'}{', from now on' if remember else ''}{f', because {reason}' if reason else ''}")]
        case TypedEdit():
            return [(text, "yes, edited")]
        case TypedValue(json) if question.form is not None and isinstance(json, dict):
            asked = {one.id: one for one in Form.from_record(list(question.form.questions)).questions}
            return [(asked[name].text, value_text(asked[name], value)) for name, value in json.items() if name in asked]
        case TypedValue(json):
            asked_alone = question.question.asked(question.id)
            return [(text, value_text(asked_alone, cast("Json", asked_alone.check(json))))]


class Submitting:
    """Answers one question in a store."""

    def __init__(
        self, store: ConversationStore, question: OpenQuestion, who: AnsweredBy, reason: str | None = None, digest: str = ""
    ) -> None:
        """Answer `question` as `who`; `digest` is that of the subject that they saw, or its beginning."""
        self._store = store
        self._digest = question.whole_digest(digest)
        self._id = question.id
        self._edits = "content" if question.kind == "deliver" else "arguments"
        self._who = who
        self._reason = reason

    def value(self, submitted: Typed) -> Receipt:
        """Answer, decide, or edit."""
        match submitted:
            case TypedValue(json, reason):
                return self._answer(value=json, reason=self._reason_or(reason))
            case TypedDecision(approve, remember, reason):
                return self._answer(approve=approve, remember=remember, reason=self._reason_or(reason), digest=self._digest)
            case TypedEdit(json):
                return self._answer(**{self._edits: json}, reason=self._reason, digest=self._digest)

    def _reason_or(self, typed: str | None) -> str | None:
        if typed is not None and self._reason is not None:
            raise AnswerError([Problem("", "There are two reasons: one in the answer, and one in `--reason`. Give one of them.")])
        return typed if self._reason is None else self._reason

    def reply(self, words: str) -> Receipt:
        """Say something to the model instead."""
        return self._answer(reply=words)

    def cancel(self) -> Receipt:
        """End the turn."""
        return self._answer(cancel=True)

    def _answer(self, **how: Any) -> Receipt:
        return self._store.answer_sync(self._id, via=VIA, user=self._who.user, **how)


def _decision(question: OpenQuestion, words: str) -> Typed:
    said, decision = " ".join(words.lower().split()), _decision_in(words)
    if question.kind == "review":
        if decision is not None and decision.answer:
            return TypedDecision(approve=True)
        raise AnswerError([Problem("", _SEND_OR_NOT)])
    if decision is not None:
        return TypedDecision(decision.answer, reason=decision.reason)
    offered = _offered(question)
    if kept := offered.get(said):
        return TypedDecision(approve=True, remember=kept)
    if said.partition(" ")[0] == "always" and offered:
        listed = "; ".join(f"`{typed}` to {kept}" for typed, kept in offered.items())
        raise AnswerError([Problem("", f"Say which of these is to be kept: {listed}.")])
    if said in _FROM_NOW_ON:
        return TypedDecision(_FROM_NOW_ON[said], remember=True)
    edit = _json(words) if words.lstrip().startswith("{") else None
    if isinstance(edit, dict) and list(edit) == ["edit"]:
        return TypedEdit(edit["edit"])
    raise AnswerError([Problem("", 'This is an approval: it takes y, n, always, never, or {"edit": …} with what to use instead.')])


def _offered(question: OpenQuestion) -> Mapping[str, str]:
    """Return what another agent offers to keep, by what is typed: `always`, or where there are several `always 1`, `always 2`."""
    offered = question.asker.always if question.asker else ()
    return {"always": offered[0]} if len(offered) == 1 else {f"always {number}": kept for number, kept in enumerate(offered, 1)}


def _json(words: str) -> Json:
    try:
        return read_json(words)
    except NotJson as error:
        raise AnswerError([Problem("", f"The value cannot be used: {error}.")]) from error


# ----------------------------------------------------------------------------------------------------------------------
# Edited arguments of a call: what its tool takes, and what is wrong with them. They are checked where they are typed


def as_edited(question: OpenQuestion, typed: Typed) -> OpenQuestion:
    """Return the question as if it were about what is used instead; as it is, where nothing was edited."""
    if not isinstance(typed, TypedEdit):
        return question
    if question.kind == "deliver":
        return replace(question, request=replace(question.request, content=str(typed.json)))
    return replace(question, arguments=typed.json, question=replace(question.question, context=None))


def check_edit(place: Place, question: OpenQuestion, typed: Typed) -> None:
    """Refuse an edit that cannot be used.

    Raises:
        AnswerError: It is of the wrong kind, or does not fit what the tool takes.
    """
    if not isinstance(typed, TypedEdit) or question.kind not in ("run", "deliver"):
        return
    if question.kind == "deliver":
        if not isinstance(typed.json, str):
            raise AnswerError([Problem("", 'A result is text: {"edit": "…"}.')])
        return
    if not isinstance(typed.json, Mapping):
        raise AnswerError([Problem("", 'Arguments are an object: {"edit": {"NAME": …}}.')])
    from midturn.cli.answer_terminal import parameters_of  # hardly an answer is an edit, and this reads the configuration

    problems = argument_problems(parameters_of(place, question), typed.json)
    if problems:
        raise AnswerError([Problem("", f"These arguments do not fit {question.tool}; nothing was recorded."), *problems])

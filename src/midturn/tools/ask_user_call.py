"""One call of `ask_user`: its arguments are asked, and the answers go back as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from midturn.errors import AnswerError, Problem, QuestionError
from midturn.ports import ToolRun
from midturn.question.form import Form, FormPlace, id_in, when_in
from midturn.question.question import Question
from midturn.record.events import ASSISTANT
from midturn.record.outcome import Outcome, Success, ToolError
from midturn.tools.ask_user_schema import ANSWER_TYPES
from midturn.turn.effects import Answer, Given, NoAnswer
from midturn.turn.inputs import FormWanted
from midturn.values.json_value import Json, JsonObject, compact, shown
from midturn.values.limits import DEFAULT_LIMITS, Limits
from midturn.values.secret import SecretValue
from midturn.values.text import ASK_USER

# ----------------------------------------------------------------------------------------------------------------------
# Arguments of `ask_user`: every mistake at once, each with its place


SINGLE_ID = "answer"
SINGLE_KEYS = ("question", "context", "answer_type", "options", "schema", "default", "allow_other")
ENTRY_KEYS = ("id", "text", "answer_type", "context", "options", "allow_other", "min", "max", "schema", "default", "optional", "when")

_SELECTS = ("select", "multi_select")
_BELONGS_TO = {"options": _SELECTS, "allow_other": _SELECTS, "min": ("multi_select",), "max": ("multi_select",), "schema": ("schema",)}
_NEEDS = {"select": "options", "multi_select": "options", "schema": "schema"}
_SINGLE_AS_ENTRY = ("id", "text", *SINGLE_KEYS[1:])
_WIRE_KEYS = ("id", "text", "context", "default", "optional", "when")


class FormRead(Struct, frozen=True):
    """The form in the arguments of a call: its result maps ids to answers.

    `answer_type` is set where the argument was `question`: one question with the id `answer`, whose result names the type.
    """

    form: Form
    answer_type: str | None = None


def read_arguments(arguments: JsonObject, limits: Limits = DEFAULT_LIMITS) -> FormRead:
    """Read the arguments of a call; `null` counts as left out.

    Raises:
        QuestionError: Everything that is wrong, with pointers into `arguments`.
    """
    given = _without_nulls(arguments)
    if "questions" in given:
        return _read_list(given, limits)
    if "question" in given:
        return _read_single(given, limits)
    raise QuestionError([Problem("/question", "missing. Give `question` to ask one thing, or `questions` to ask several.")])


def _read_single(given: JsonObject, limits: Limits) -> FormRead:
    unknown = [Problem(f"/{key}", _unknown_beside_question(key)) for key in given if key not in SINGLE_KEYS]
    flat = _typed({"answer_type": "text"} if "options" not in given else {}, {**given, "id": SINGLE_ID, "text": given["question"]})
    entry = _entry({key: value for key, value in flat.items() if key in _SINGLE_AS_ENTRY}, limits)
    problems = [*unknown, *(_about_question(problem) for problem in entry.problems)]
    if problems:
        raise QuestionError(problems)
    return FormRead(Form.from_entries([entry]), str(flat["answer_type"]))


def _read_list(given: JsonObject, limits: Limits) -> FormRead:
    beside = [Problem(f"/{key}", _beside_questions(key)) for key in given if key != "questions"]
    questions = given["questions"]
    if not isinstance(questions, list):
        raise QuestionError([*beside, Problem("/questions", f"must be an array of 1 to {limits.form} questions.")])
    entries = [_entry(obj, limits) for obj in questions]
    try:
        form = Form.from_entries(entries, review=len(entries) > 1, limit=limits.form)
    except QuestionError as error:
        raise QuestionError([*beside, *error.problems]) from None
    if beside:
        raise QuestionError(beside)
    return FormRead(form)


def _entry(obj: Json, limits: Limits) -> FormPlace:
    """Read one question as a model writes it: flat, with the fields of its answer type beside the others."""
    if not isinstance(obj, dict):
        return FormPlace(None, problems=(Problem("", "must be an object with `id`, `text` and `answer_type`."),))
    given = _typed({}, _without_nulls(cast("JsonObject", obj)))
    problems = [Problem(f"/{key}", f"unknown; a question has {_listed(ENTRY_KEYS)}.") for key in given if key not in ENTRY_KEYS]
    of_type = list(_type_problems(given))
    wire: dict[str, Json] = {key: given[key] for key in _WIRE_KEYS if key in given}
    wire |= {"answer_type": _answer_type(given), "exclusive": True, "persistence": "none"}
    if of_type:  # what else is wrong is still looked for, with a type that forbids nothing
        wire["answer_type"] = {"type": "text"}
        wire.pop("default", None)
    try:
        question = Question.from_json(wire, limits)
    except QuestionError as error:
        problems += [Problem(_in_arguments(p.pointer), p.message) for p in error.problems]
        question = None
    problems = [*problems, *of_type]
    return FormPlace(id_in(wire), when_in(wire), None if problems else question, tuple(problems))


def _typed(default: JsonObject, given: JsonObject) -> dict[str, Json]:
    """Return a question with its type: where options stand and no type, one of them is to be chosen."""
    return {**default, **({"answer_type": "select"} if "options" in given else {}), **given}


def _answer_type(given: JsonObject) -> dict[str, Json]:
    kind = given.get("answer_type")
    others = {"allow_other": True} if kind in _SELECTS else {}
    return {"type": kind, **others, **{key: given[key] for key in _BELONGS_TO if key in given}}


def _type_problems(given: JsonObject) -> Iterator[Problem]:
    """Check which fields stand beside which answer type."""
    kind = given.get("answer_type")
    if "answer_type" not in given:
        yield Problem("/answer_type", f"missing; it is one of {_listed(ANSWER_TYPES)}.")
    elif kind == "secret":
        yield Problem("/answer_type", "secrets must not be asked for: answers are sent to you and are stored. Do without it.")
    elif kind not in ANSWER_TYPES:
        yield Problem("/answer_type", f"there is no such type; it is one of {_listed(ANSWER_TYPES)}.")
    else:
        needed = _NEEDS.get(str(kind))
        if needed is not None and needed not in given:
            what = 'the list of choices, such as ["yes", "no"]' if needed == "options" else "the JSON Schema of the answer"
            yield Problem(f"/{needed}", f"missing; the type `{kind}` needs {what}.")
        for key, kinds in _BELONGS_TO.items():
            if key in given and kind not in kinds:
                only_for = _listed(kinds, "or")
                yield Problem(f"/{key}", f"only for the type {only_for}, not for `{kind}`: leave it out or change `answer_type`.")
        yield from _option_problems(given.get("options"))


def _option_problems(options: Json) -> Iterator[Problem]:
    """Check that the choices are texts: people read them, and so do you in the answer."""
    for place, option in enumerate(options if isinstance(options, list) else ()):
        value = option.get("value") if isinstance(option, dict) else option
        if not isinstance(value, str):
            yield Problem(f"/options/{place}", f"{shown(value)} is not text. Give a string, or an object with a string as `value`.")


def _in_arguments(pointer: str) -> str:
    """Translate a pointer into the wire shape: there the fields of an answer type are nested."""
    nested = pointer.removeprefix("/answer_type/")
    return pointer if nested == pointer else "/answer_type" if nested == "type" else f"/{nested}"


def _about_question(problem: Problem) -> Problem:
    """Name the argument `question` where an entry of a list has its `text`."""
    if problem.pointer != "/text":
        return problem
    return Problem("/question", problem.message.replace("`text`", "`question`"))


def _unknown_beside_question(key: str) -> str:
    wrong = "it belongs to an entry of `questions`" if key in ENTRY_KEYS else "unknown argument"
    return f"{wrong}; beside `question` there are {_listed(SINGLE_KEYS[1:])}."


def _beside_questions(key: str) -> str:
    if key == "question":
        return "give either `question` (one thing) or `questions` (several), not both."
    if key in ENTRY_KEYS:
        return "nothing may stand beside `questions`; put it into the entries that it is about."
    return "unknown; nothing may stand beside `questions`."


def _without_nulls(obj: JsonObject) -> dict[str, Json]:
    return {key: value for key, value in obj.items() if value is not None}


def _listed(names: Sequence[str], last: str = "and") -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


MISMATCH = "the accumulated answer does not match the requested answer type"


async def asked_by_model(run: ToolRun) -> Outcome:
    """Ask, and return the answers as JSON; arguments that cannot be asked come back as an error that says how to correct them."""
    try:
        asked = read_arguments(cast("JsonObject", run.call.arguments), run.limits)
    except QuestionError as error:
        return ToolError(_explain(error))
    given = await run.ask(FormWanted(asked.form, ASSISTANT))
    if any(isinstance(answer, NoAnswer) and answer.reason == "deadline" for answer in given.values()):
        values = {id: answer.value for id, answer in given.items() if isinstance(answer, Answer)}  # noqa: A001  the wire's word
        answered = {key: value for key, value in values.items() if value is not None and not isinstance(value, SecretValue)}
        return Success(compact({"cancelled": True, "answered": answered, "reason": "deadline"}))
    try:
        answers = {question.id: _answer(question, given) for question in asked.form.questions}
    except AnswerError:
        return ToolError(MISMATCH)
    if asked.answer_type is None:
        return Success(compact(answers))
    return Success(compact({"answer_type": asked.answer_type, "answer": answers[SINGLE_ID], **_reason(given)}))


def _answer(question: Question[Any], given: Given) -> Json:
    """Return the answer once more checked: whatever its route, the model gets what it asked for.

    Raises:
        AnswerError: The arguments are wrong.
    """
    answer = given[question.id]
    if not isinstance(answer, Answer) or isinstance(answer.value, SecretValue):
        raise AnswerError(())
    if answer.value is None and question.when is not None:
        return None
    return cast("Json", question.check(answer.value))  # `ask_user` has no secrets


def _reason(given: Given) -> Mapping[str, Json]:
    """Return what the person typed with the answer, if anything."""
    match given[SINGLE_ID]:
        case Answer(by="user", reason=str(reason)):
            return {"reason": reason}
        case _:
            return {}


def _explain(error: QuestionError) -> str:
    problems = "\n".join(f"- {problem}" for problem in error.problems)
    return f"{ASK_USER}: nothing was asked, because the arguments are wrong. Correct them and call it again.\n{problems}"

"""The built-in tool `ask_user`: its description and JSON Schema for the model, and the execution of
a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from midturn.errors import AnswerError, Problem, QuestionError
from midturn.events.outcome import Outcome, Success, ToolError
from midturn.events.types import ASSISTANT, Source
from midturn.exchange import ToolDefinition
from midturn.ports import ToolRun
from midturn.question.form import Form, FormPlace, id_in, when_in
from midturn.question.json_text import compact
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, Limits, SecretValue, shown
from midturn.question.question import Question
from midturn.question.text import ASK_USER
from midturn.tools.ask_user_shapes import as_written, own_shape
from midturn.turn.inputs import Answer, FormWanted, Given, NoAnswer

ANSWER_TYPES = ("boolean", "select", "multi_select", "text", "schema")

DESCRIPTION = """\
Ask the user something in the middle of your work and get a typed answer back, without ending your turn.

Use it only for what you cannot find out yourself and the user can be expected to know: a preference, a decision that is theirs, a fact \
that stands nowhere in the conversation or in reach of your other tools. Do not use it for what the context already answers, and not to \
have obvious next steps confirmed: go on and do them. When in doubt, answer what the user originally asked.

Ask one thing with `question`. Put several related things into one call with `questions`: the user goes through them in order, may go \
back, and sees the answers once more before they are sent; `when` asks a question only after a certain answer to an earlier one. Choose \
the narrowest `answer_type`: `boolean` for yes or no, `select` for one of some options, `multi_select` for any number of them, `text` \
for free words, `schema` for structured data. Each question is one line; put diffs, lists and explanations into `context`.

Never ask for passwords, keys, tokens or other secrets: answers are sent to you and are stored with the conversation.

The result of `question` is {"answer_type": …, "answer": …}, and "reason" if the user explained a no. The result of `questions` is an \
object from id to answer; a question that was skipped is null. If the user does not want to answer, it is {"cancelled": true, \
"answered": {…}} with what was answered by then, and "reply" with what they said instead: respond to that."""

_ANY_VALUE: dict[str, Json] = {
    "type": ["boolean", "string", "number", "array", "object"],
    "items": {"type": "string"},
}

_OPTIONS: dict[str, Json] = {
    "type": "array",
    "description": (
        "The choices, 1 to 200, in the order shown. Required for select and multi_select, not"
        " allowed otherwise. A choice that does not speak for itself is an object with a"
        " description."
    ),
    "items": {
        "type": ["string", "object"],
        "properties": {
            "value": {
                "type": "string",
                "description": "What you get back when the user picks this choice.",
            },
            "description": {
                "type": "string",
                "description": "One line that the user sees beside it.",
            },
            "preview": {
                "type": "string",
                "description": (
                    "Lines that the user sees while the choice is highlighted: a mock-up, code, a"
                    " diff. At most 16 KiB."
                ),
            },
        },
        "required": ["value"],
    },
}

_CONTEXT = (
    "Markdown shown above the question, any number of lines (at most 16 KiB): the diff, the list,"
    " what each choice means."
)
_ANSWER_TYPE = "What kind of answer you need"
_SCHEMA = (
    "The JSON Schema of the answer. Required for schema, not allowed otherwise. At most 16 KiB and"
    " 8 levels; `$ref` stays inside it."
)
_DEFAULT = (
    "The answer that is filled in already; it must be a valid answer: one of the options for"
    " select, a list of them for multi_select."
)
_ALLOW_OTHER = (
    "For select and multi_select: whether the user may answer in their own words instead, which you"
    ' get as {"other": "…"}. True unless you set it to false.'
)

_QUESTION: dict[str, Json] = {
    "type": "object",
    "properties": {
        "id": {
            "type": "string",
            "description": (
                "The key of the answer in the result: 1 to 64 letters, digits, `_` or `-`, unique"
                " in the list."
            ),
        },
        "text": {
            "type": "string",
            "description": "The question, in one line of at most 2,048 characters.",
        },
        "answer_type": {
            "type": "string",
            "enum": list(ANSWER_TYPES),
            "description": f"{_ANSWER_TYPE}.",
        },
        "context": {"type": "string", "description": _CONTEXT},
        "options": _OPTIONS,
        "allow_other": {"type": "boolean", "description": _ALLOW_OTHER},
        "min": {
            "type": "integer",
            "description": "For multi_select: the fewest choices, 0 unless you set it.",
        },
        "max": {
            "type": "integer",
            "description": "For multi_select: the most choices, all unless you set it.",
        },
        "schema": {"type": "object", "description": _SCHEMA},
        "default": {**_ANY_VALUE, "description": _DEFAULT},
        "optional": {
            "type": "boolean",
            "description": "Whether the user may skip the question; its answer is then null.",
        },
        "when": {
            "type": "object",
            "description": (
                "Ask only if an earlier question of the list has exactly this answer; otherwise the"
                " question is skipped."
            ),
            "properties": {
                "question_id": {
                    "type": "string",
                    "description": "The id of a question that comes before this one.",
                },
                "equals": {
                    **_ANY_VALUE,
                    "description": "The answer that it must have had, such as true.",
                },
            },
            "required": ["question_id", "equals"],
        },
    },
    "required": ["id", "text", "answer_type"],
}

PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "question": {
            "type": "string",
            "description": (
                "The question, in one line of at most 2,048 characters. Give either this or"
                " `questions`."
            ),
        },
        "context": {"type": "string", "description": _CONTEXT},
        "answer_type": {
            "type": "string",
            "enum": list(ANSWER_TYPES),
            "description": f"{_ANSWER_TYPE}; text if you leave it out.",
        },
        "options": _OPTIONS,
        "schema": {"type": "object", "description": _SCHEMA},
        "default": {**_ANY_VALUE, "description": _DEFAULT},
        "allow_other": {"type": "boolean", "description": _ALLOW_OTHER},
        "questions": {
            "type": "array",
            "minItems": 1,
            "description": (
                "Several related questions, at most 20, in this order. Give either this or"
                " `question`, and nothing beside it."
            ),
            "items": _QUESTION,
        },
    },
}


# --------------------------------------------------------------------------------------------------
# Parsing of the arguments. All errors are reported together, each with its JSON Pointer


SINGLE_ID = "answer"
SINGLE_KEYS = ("question", "context", "answer_type", "options", "schema", "default", "allow_other")
ENTRY_KEYS = (
    "id",
    "text",
    "answer_type",
    "context",
    "options",
    "allow_other",
    "min",
    "max",
    "schema",
    "default",
    "optional",
    "when",
)

_SELECTS = ("select", "multi_select")
_TYPES_OF_KEY = {
    "options": _SELECTS,
    "allow_other": _SELECTS,
    "min": ("multi_select",),
    "max": ("multi_select",),
    "schema": ("schema",),
}
_REQUIRED_KEY = {"select": "options", "multi_select": "options", "schema": "schema"}
_SINGLE_ENTRY_KEYS = ("id", "text", *SINGLE_KEYS[1:])
_COMMON_KEYS = ("id", "text", "context", "default", "optional", "when")


class FormRead(Struct, frozen=True):
    """The form in the arguments of a call.

    `answer_type` is set if the call has the argument `question` instead of `questions`. The form
    then has a single question with the id `answer`, and the result of the call contains the answer
    type. Otherwise, the result is a mapping from ids to answers.
    """

    form: Form
    answer_type: str | None = None


def read_arguments(arguments: JsonObject, limits: Limits = DEFAULT_LIMITS) -> FormRead:
    """Parse the arguments of a call. The formats of other agents' question tools are also accepted.
    `null` counts as missing.

    Raises:
        QuestionError: The arguments are invalid. `problems` lists every error, each with a JSON
            Pointer into `arguments`.
    """
    try:
        return _read(own_shape(_without_nulls(arguments)), limits)
    except QuestionError as error:
        raise QuestionError(
            [as_written(problem, arguments) for problem in error.problems]
        ) from None


def _read(given: JsonObject, limits: Limits) -> FormRead:
    if "questions" in given:
        return _read_list(given, limits)
    if "question" in given:
        return _read_single(given, limits)
    raise QuestionError(
        [
            Problem(
                "/question",
                "missing. Give `question` to ask one thing, or `questions` to ask several.",
            )
        ]
    )


def _read_single(given: JsonObject, limits: Limits) -> FormRead:
    unknown = [
        Problem(f"/{key}", _unknown_beside_question(key)) for key in given if key not in SINGLE_KEYS
    ]
    flat = _typed(
        {"answer_type": "text"} if "options" not in given else {},
        {**given, "id": SINGLE_ID, "text": given["question"]},
    )
    entry = _entry({key: value for key, value in flat.items() if key in _SINGLE_ENTRY_KEYS}, limits)
    problems = [*unknown, *(_about_question(problem) for problem in entry.problems)]
    if problems:
        raise QuestionError(problems)
    return FormRead(Form.from_entries([entry]), str(flat["answer_type"]))


def _read_list(given: JsonObject, limits: Limits) -> FormRead:
    beside = [Problem(f"/{key}", _beside_questions(key)) for key in given if key != "questions"]
    questions = given["questions"]
    if not isinstance(questions, list):
        raise QuestionError(
            [*beside, Problem("/questions", f"must be an array of 1 to {limits.form} questions.")]
        )
    entries = [_entry(obj, limits) for obj in questions]
    try:
        form = Form.from_entries(entries, review=len(entries) > 1, limit=limits.form)
    except QuestionError as error:
        raise QuestionError([*beside, *error.problems]) from None
    if beside:
        raise QuestionError(beside)
    return FormRead(form)


def _entry(obj: Json, limits: Limits) -> FormPlace:
    """Read one question in the model's flat format, which has the fields of the answer type next to
    the other fields.
    """
    if not isinstance(obj, dict):
        return FormPlace(
            None, problems=(Problem("", "must be an object with `id`, `text` and `answer_type`."),)
        )
    given = _typed({}, _without_nulls(cast("JsonObject", obj)))
    problems = [
        Problem(f"/{key}", f"unknown; a question has {_listed(ENTRY_KEYS)}.")
        for key in given
        if key not in ENTRY_KEYS
    ]
    type_problems = list(_type_problems(given))
    wire: dict[str, Json] = {key: given[key] for key in _COMMON_KEYS if key in given}
    wire |= {"answer_type": _answer_type(given), "exclusive": True, "persistence": "none"}
    if type_problems:  # check the other fields with a type that accepts all of them
        wire["answer_type"] = {"type": "text"}
        wire.pop("default", None)
    try:
        question = Question.from_json(wire, limits)
    except QuestionError as error:
        problems += [Problem(_in_arguments(p.pointer), p.message) for p in error.problems]
        question = None
    problems = [*problems, *type_problems]
    return FormPlace(id_in(wire), when_in(wire), None if problems else question, tuple(problems))


def _typed(default: JsonObject, given: JsonObject) -> dict[str, Json]:
    """Return a question with its type. Without a type, a question with options is a `select`."""
    return {**default, **({"answer_type": "select"} if "options" in given else {}), **given}


def _answer_type(given: JsonObject) -> dict[str, Json]:
    kind = given.get("answer_type")
    others = {"allow_other": True} if kind in _SELECTS else {}
    return {"type": kind, **others, **{key: given[key] for key in _TYPES_OF_KEY if key in given}}


def _type_problems(given: JsonObject) -> Iterator[Problem]:
    """Yield errors about fields that the answer type requires or does not allow."""
    kind = given.get("answer_type")
    if "answer_type" not in given:
        yield Problem("/answer_type", f"missing; it is one of {_listed(ANSWER_TYPES)}.")
    elif kind == "secret":
        yield Problem(
            "/answer_type",
            "secrets must not be asked for: answers are sent to you and are stored. Do without it.",
        )
    elif kind not in ANSWER_TYPES:
        yield Problem(
            "/answer_type", f"there is no such type; it is one of {_listed(ANSWER_TYPES)}."
        )
    else:
        needed = _REQUIRED_KEY.get(str(kind))
        if needed is not None and needed not in given:
            what = (
                'the list of choices, such as ["yes", "no"]'
                if needed == "options"
                else "the JSON Schema of the answer"
            )
            yield Problem(f"/{needed}", f"missing; the type `{kind}` needs {what}.")
        for key, kinds in _TYPES_OF_KEY.items():
            if key in given and kind not in kinds:
                only_for = _listed(kinds, "or")
                yield Problem(
                    f"/{key}",
                    f"only for the type {only_for}, not for `{kind}`: leave it out or change"
                    " `answer_type`.",
                )
        yield from _option_problems(given.get("options"))


def _option_problems(options: Json) -> Iterator[Problem]:
    """Yield errors about options that are not strings. Options are shown as text."""
    for place, option in enumerate(options if isinstance(options, list) else ()):
        value = option["value"] if isinstance(option, dict) and "value" in option else option
        if not isinstance(value, str):
            yield Problem(
                f"/options/{place}",
                f"{shown(value)} is not text. Give a string, or an object with a string as"
                " `value`.",
            )


def _in_arguments(pointer: str) -> str:
    """Translate a pointer from the nested question format to the model's flat format."""
    nested = pointer.removeprefix("/answer_type/")
    return pointer if nested == pointer else "/answer_type" if nested == "type" else f"/{nested}"


def _about_question(problem: Problem) -> Problem:
    """Name the argument `question` in the error for a single question. An entry of a list would
    have the key `text`.
    """
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
    """Ask the questions and return the answers as JSON. If the arguments are invalid, return an
    error that tells the model how to correct them.
    """
    try:
        asked = read_arguments(cast("JsonObject", run.call.arguments), run.limits)
    except QuestionError as error:
        return ToolError(_explain(error))
    given = await run.ask(FormWanted(asked.form, ASSISTANT))
    if any(
        isinstance(answer, NoAnswer) and answer.reason == "deadline" for answer in given.values()
    ):
        values = {id: answer.value for id, answer in given.items() if isinstance(answer, Answer)}  # noqa: A001  as in JSON
        answered = {
            key: value
            for key, value in values.items()
            if value is not None and not isinstance(value, SecretValue)
        }
        return Success(compact({"cancelled": True, "answered": answered, "reason": "deadline"}))
    try:
        answers = {question.id: _answer(question, given) for question in asked.form.questions}
    except AnswerError:
        return ToolError(MISMATCH)
    if asked.answer_type is None:
        return Success(compact(answers))
    return Success(
        compact({"answer_type": asked.answer_type, "answer": answers[SINGLE_ID], **_reason(given)})
    )


def _answer(question: Question[Any], given: Given) -> Json:
    """Validate the answer again, so that the model gets the requested type from every responder.

    Raises:
        AnswerError: The answer is missing or invalid.
    """
    answer = given[question.id]
    if not isinstance(answer, Answer) or isinstance(answer.value, SecretValue):
        raise AnswerError(())
    if answer.value is None and question.when is not None:
        return None
    return cast("Json", question.check(answer.value))  # `ask_user` never asks for secrets


def _reason(given: Given) -> Mapping[str, Json]:
    """Return the reason that a person gave with the answer, if any."""
    match given[SINGLE_ID]:
        case Answer(by="user", reason=str(reason)):
            return {"reason": reason}
        case _:
            return {}


def _explain(error: QuestionError) -> str:
    problems = "\n".join(f"- {problem}" for problem in error.problems)
    return (
        f"{ASK_USER}: nothing was asked, because the arguments are wrong. Correct them and call it"
        f" again.\n{problems}"
    )


class AskUserTool:
    """The built-in tool that lets the model ask the user questions. Only a person can answer them,
    and the answers are not remembered.
    """

    @property
    def definition(self) -> ToolDefinition:
        """The definition that the model receives with every request."""
        return ToolDefinition(ASK_USER, DESCRIPTION, PARAMETERS)

    def inquiry_source(self) -> Source:
        """Return the assistant as the source of the questions."""
        return ASSISTANT

    async def execute(self, run: ToolRun) -> Outcome:
        """Ask the questions and return the answers as JSON. If the arguments are invalid, return an
        error that tells the model how to correct them.
        """
        return await asked_by_model(run)


ask_user = AskUserTool()
"""The tool that lets the model ask the user questions. To use it, add it to an agent's `tools`.
"""

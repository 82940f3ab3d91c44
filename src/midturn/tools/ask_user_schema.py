"""Description and JSON Schema of `ask_user`, literally as models read them."""

from __future__ import annotations

from midturn.values.json_value import Json, JsonObject

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

_ANY_VALUE: dict[str, Json] = {"type": ["boolean", "string", "number", "array", "object"], "items": {"type": "string"}}

_OPTIONS: dict[str, Json] = {
    "type": "array",
    "description": "The choices, 1 to 200, in the order shown. Required for select and multi_select, not allowed otherwise. "
    "A choice that does not speak for itself is an object with a description.",
    "items": {
        "type": ["string", "object"],
        "properties": {
            "value": {"type": "string", "description": "What you get back when the user picks this choice."},
            "description": {"type": "string", "description": "One line that the user sees beside it."},
        },
        "required": ["value"],
    },
}

_CONTEXT = "Markdown shown above the question, any number of lines (at most 16 KiB): the diff, the list, what each choice means."
_ANSWER_TYPE = "What kind of answer you need"
_SCHEMA = "The JSON Schema of the answer. Required for schema, not allowed otherwise. At most 16 KiB and 8 levels; `$ref` stays inside it."
_DEFAULT = (
    "The answer that is filled in already; it must be a valid answer: one of the options for select, a list of them for multi_select."
)
_ALLOW_OTHER = (
    'For select and multi_select: whether the user may answer in their own words instead, which you get as {"other": "…"}. True unless you '
    "set it to false."
)

_QUESTION: dict[str, Json] = {
    "type": "object",
    "properties": {
        "id": {
            "type": "string",
            "description": "The key of the answer in the result: 1 to 64 letters, digits, `_` or `-`, unique in the list.",
        },
        "text": {"type": "string", "description": "The question, in one line of at most 2,048 characters."},
        "answer_type": {"type": "string", "enum": list(ANSWER_TYPES), "description": f"{_ANSWER_TYPE}."},
        "context": {"type": "string", "description": _CONTEXT},
        "options": _OPTIONS,
        "allow_other": {"type": "boolean", "description": _ALLOW_OTHER},
        "min": {"type": "integer", "description": "For multi_select: the fewest choices, 0 unless you set it."},
        "max": {"type": "integer", "description": "For multi_select: the most choices, all unless you set it."},
        "schema": {"type": "object", "description": _SCHEMA},
        "default": {**_ANY_VALUE, "description": _DEFAULT},
        "optional": {"type": "boolean", "description": "Whether the user may skip the question; its answer is then null."},
        "when": {
            "type": "object",
            "description": "Ask only if an earlier question of the list has exactly this answer; otherwise the question is skipped.",
            "properties": {
                "question_id": {"type": "string", "description": "The id of a question that comes before this one."},
                "equals": {**_ANY_VALUE, "description": "The answer that it must have had, such as true."},
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
            "description": "The question, in one line of at most 2,048 characters. Give either this or `questions`.",
        },
        "context": {"type": "string", "description": _CONTEXT},
        "answer_type": {"type": "string", "enum": list(ANSWER_TYPES), "description": f"{_ANSWER_TYPE}; text if you leave it out."},
        "options": _OPTIONS,
        "schema": {"type": "object", "description": _SCHEMA},
        "default": {**_ANY_VALUE, "description": _DEFAULT},
        "allow_other": {"type": "boolean", "description": _ALLOW_OTHER},
        "questions": {
            "type": "array",
            "minItems": 1,
            "description": "Several related questions, at most 20, in this order. Give either this or `question`, and nothing beside it.",
            "items": _QUESTION,
        },
    },
}

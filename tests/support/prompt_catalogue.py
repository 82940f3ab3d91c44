"""Prompts of every type and kind, by name, for the tests of the terminal."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from midturn.events.prompt import CallSubject, FormSubject, Prompt, ResultSubject
from midturn.events.types import ToolCall
from midturn.question.answer_type import (
    BooleanType,
    MultiSelectType,
    SchemaType,
    SecretType,
    SelectOption,
    SelectType,
    TextType,
)
from midturn.question.question import Question

PATCH = """I want to change the retry loop:

```diff
--- a/client.py
+++ b/client.py
@@ -10,6 +10,7 @@ def fetch(url):
-    for i in range(3):
+    for attempt in range(5):
+        backoff(attempt)
         r = get(url)
```
This is **not** reversible with `git stash`.
"""
HOSTILE = (
    "Delete \x1b[31mlogs?\x1b]0;own\x07 \x1b[8mhidden\x1b[0m \x9b2J\rSafe? \u202egpj.exe\u202c"
    " z\u200bw \x1bPq\x1b\\ \udcff end"
)
ENVIRONMENTS = (
    SelectOption("staging", "Nightly copy of production; safe to break"),
    SelectOption(
        "production",
        "Live customers; needs a change ticket and a second pair of eyes before you pick it",
    ),
    SelectOption("local", "Docker compose on this machine"),
)
CHECKS = (
    SelectOption("lint", "ruff, 2 s"),
    SelectOption("types", "mypy, 40 s"),
    SelectOption("unit tests", "pytest, 3 min"),
    SelectOption("end-to-end", "docker, 12 min"),
    SelectOption("docs build"),
)
FILES = tuple(
    SelectOption(f"src/module_{number:02}.py", f"{37 * number % 900} lines") for number in range(48)
)
REGIONS: dict[str, Any] = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
}
SETTINGS: dict[str, Any] = {
    "type": "object",
    "properties": {"replicas": {"type": "integer", "maximum": 10}, "region": REGIONS},
    "required": ["replicas", "region"],
}
MACHINE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "cpu": {"type": "integer", "minimum": 1},
        "burst": {"type": "boolean"},
        "note": {"type": "string"},
    },
    "required": ["cpu", "burst"],
}


def _ask(answer_type: Any, text: str, **terms: Any) -> Prompt:
    unchecked: Any = (
        Question.unchecked
    )  # the constructors reject hostile questions, but old logs contain them
    question = unchecked(id="answer", text=text, answer_type=answer_type, **terms)
    return Prompt(question=question, asked_by="Assistant")


CALL = ToolCall(
    "ev1", "call_1", "deploy", {"env": "production", "script": 'set -e\nmake "all"\n', "dry": False}
)
BOOLEAN = _ask(BooleanType(), "Apply patch?", context=PATCH)
SELECT = _ask(
    SelectType(ENVIRONMENTS),
    "Which environment should the migration run against?",
    default="staging",
)
MULTI = _ask(MultiSelectType(CHECKS, min=1), "Which checks should run?", default=["lint"])
TEXT = _ask(TextType(), "Note for the migration log?", default="none")
SECRET = _ask(SecretType(), "API token?")
SCHEMA = _ask(SchemaType(SETTINGS), "Deployment settings?", default={"replicas": 3, "region": "eu"})
RUN = replace(
    _ask(BooleanType(), "Run deploy?"),
    kind="run",
    asked_by="deploy",
    subject=CallSubject(CALL),
    may_remember=True,
)
DELIVER = replace(
    _ask(BooleanType(), "Give the result of deploy to the model?"),
    kind="deliver",
    asked_by="deploy",
    subject=ResultSubject(CALL, "line one\nline two", is_error=False),
)
REVIEW = replace(
    _ask(BooleanType(), "Send these answers?"),
    kind="review",
    subject=FormSubject(
        (BOOLEAN.question, replace(SELECT.question, id="env")),
        {"answer": True, "env": "production"},
    ),
)

WALKED: dict[str, Prompt] = {
    "fields": _ask(SchemaType(MACHINE), "Which machine?", context="For the build.")
}
"""Prompts that the terminal asks in several steps."""
PROMPTS: dict[str, Prompt] = {
    "boolean": replace(BOOLEAN, may_remember=True, can_go_back=True),
    "boolean_default": replace(
        _ask(BooleanType(), "Apply patch?", default=True), may_remember=True
    ),
    "boolean_no_persistence": _ask(BooleanType(), "Drop the production table?"),
    "boolean_optional": _ask(BooleanType(), "Send a message to everybody?", optional=True),
    "boolean_long": replace(
        _ask(
            BooleanType(),
            "Should the agent rewrite every call site of the deprecated configuration loader in"
            " this repository, including generated files and vendored code?",
            default=False,
        ),
        may_remember=True,
        can_go_back=True,
    ),
    "boolean_cut": _ask(
        BooleanType(),
        "Apply all of it?",
        context="\n".join(f"line {number}" for number in range(1, 201)),
    ),
    "select": replace(SELECT, can_go_back=True),
    "select_other": replace(
        _ask(SelectType(ENVIRONMENTS, allow_other=True), "Which environment?", optional=True),
        can_go_back=True,
    ),
    "select48": replace(_ask(SelectType(FILES), "Which file?"), can_go_back=True),
    "multi": replace(MULTI, can_go_back=True),
    "multi_other": _ask(MultiSelectType(CHECKS, allow_other=True), "Which checks should run?"),
    "text": replace(TEXT, can_go_back=True),
    "text_empty": _ask(TextType(), "Note for the migration log?"),
    "secret": SECRET,
    "schema": SCHEMA,
    "schema_skeleton": _ask(SchemaType(SETTINGS), "Deployment settings?"),
    "run": RUN,
    "deliver": DELIVER,
    "review": REVIEW,
    "form": replace(SELECT, index=2, total=3, can_go_back=True, prefill="production"),
    "labelled": replace(
        BOOLEAN,
        question=replace(BOOLEAN.question, context=None),
        asked_by="deploy",
        label="Assistant",
    ),
    "error": replace(TEXT, error="the answer must be a string, not 3."),
    "untrusted": replace(
        _ask(
            SelectType(
                (
                    SelectOption("ok\x1b[2J\x1bcgone", "desc\x07"),
                    SelectOption("\u202etxt.exe", "rtl"),
                )
            ),
            HOSTILE,
            context=f"{HOSTILE}\n{HOSTILE}",
        ),
        asked_by="Ass\x1bistant\u202e",
        label="x\x1b[31m",
        error=HOSTILE,
        can_go_back=True,
    ),
    "wide": replace(
        _ask(
            SelectType(
                (
                    SelectOption("本番環境", "お客様が使っています 👨\u200d👩"),
                    SelectOption("開発 🇳🇱", "❤\ufe0f safe 👍🏽"),
                    SelectOption("café"),
                )
            ),
            "どの環境で実行しますか\uff1f 🚀",
        ),
        can_go_back=True,
    ),
}

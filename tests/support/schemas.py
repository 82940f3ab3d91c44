"""JSON Schemas for questions: the accepted ones of the published test suite, and one with a field
of every kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from midturn.errors import QuestionError
from midturn.question.question import Question

_SUITE = Path(__file__).parents[1] / "data" / "json_schema_suite" / "draft2020-12"
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WINDOW: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "start": {"type": "string", "format": "date", "description": "The first day"},
        "minutes": {"type": "integer", "minimum": 1, "maximum": 600, "default": 30},
        "notify": {"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 1},
        "urgent": {"type": "boolean"},
        "env": {"enum": ["staging", "production"]},
        "owner": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2},
                "phone": {"type": "string", "pattern": "^[0-9 ]+$"},
            },
            "required": ["name"],
        },
        "at": {"type": "string", "format": "date-time"},
        "days": {"type": "array", "items": {"enum": DAYS}, "uniqueItems": True},
    },
    "required": ["start", "minutes", "notify", "urgent", "env", "owner"],
}


@cache
def suite() -> list[tuple[Mapping[str, Any], list[Any]]]:
    """Return the schemas of the suite that a question accepts, each with its valid answers."""
    found: list[tuple[Mapping[str, Any], list[Any]]] = []
    for path in sorted(_SUITE.glob("*.json")):
        for case in json.loads(path.read_text()):
            if not isinstance(case["schema"], dict):
                continue
            schema = {key: value for key, value in case["schema"].items() if key != "$schema"}
            with suppress(QuestionError):
                Question.schema("q", "?", schema)
                found.append((schema, [test["data"] for test in case["tests"] if test["valid"]]))
    return found

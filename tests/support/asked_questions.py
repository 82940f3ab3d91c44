"""Hypothesis strategies for all valid questions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.json_values import TEXTS

IDS = st.from_regex(r"(?!__)[A-Za-z0-9_-]{1,64}", fullmatch=True)
LINES = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=40
).filter(lambda text: bool(text.strip()))
LABELS = st.integers(0, 99).map(lambda number: f"option {number}")
OPTIONS = st.lists(
    LABELS | st.integers(100, 999) | st.booleans() | st.sampled_from([0.5, 1.5]),
    min_size=1,
    max_size=6,
    unique_by=str,
)
SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"type": "integer"},
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "required": ["a"]},
    ]
)


@st.composite
def answer_types(draw: st.DrawFn) -> dict[str, Any]:
    """An answer type in the form that tools write it, with plain or described options."""
    kind = draw(st.sampled_from(["boolean", "select", "multi_select", "text", "secret", "schema"]))
    if kind == "schema":
        return {"type": kind, "schema": draw(SCHEMAS)}
    if kind not in {"select", "multi_select"}:
        return {"type": kind}
    values = draw(OPTIONS)
    described = draw(st.booleans())
    authored: dict[str, Any] = {
        "type": kind,
        "options": [
            {"value": value, "description": "?"} if described else value for value in values
        ],
    }
    if draw(st.booleans()):
        authored["allow_other"] = True
    if kind == "multi_select" and draw(st.booleans()):
        authored |= {"min": 1, "max": len(values)}
    return authored


@st.composite
def authored_questions(draw: st.DrawFn) -> dict[str, Any]:
    """A question in the form that tools write it, without default values."""
    question: dict[str, Any] = {
        "id": draw(IDS),
        "text": draw(LINES),
        "answer_type": draw(answer_types()),
    }
    if draw(st.booleans()):
        question["context"] = draw(TEXTS)
    question |= {name: True for name in ("exclusive", "optional") if draw(st.booleans())}
    if draw(st.booleans()):
        question["persistence"] = "none"
    return question

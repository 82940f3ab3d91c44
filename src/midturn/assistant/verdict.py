"""From a model's response to an answer, or to what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from midturn.core.exchange import Finished, StructuredPart, TextPart, ToolCallPart
from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import Json, json_equal

LONGEST: Final = 256 * 1024
"""Characters that an answer may have; whoever asked stops listening after them."""

_LONGEST_REASON: Final = 2_048  # characters that are kept: it is recorded, shown, and told to the main model


class ReadAnswer(Struct, frozen=True):
    """A response of the right shape; whether `answer` fits the question is not decided yet."""

    answer: Json
    reason: str | None


class Wrong(Struct, frozen=True):
    """A response that is not an answer, and why."""

    problem: str


Verdict: TypeAlias = ReadAnswer | Wrong


def read_answer(finished: Finished) -> Verdict:
    """Find the answer in a response: its structured value, or its text where all of that is one JSON object."""
    called = [part.name for part in finished.parts if isinstance(part, ToolCallPart)]
    if called:
        return Wrong(f"it called the tool `{called[0]}` in place of an answer")
    if finished.stop_reason == "refusal":
        return Wrong("the model refused to answer")
    part = next((part for part in finished.parts if isinstance(part, StructuredPart)), None)
    text = "".join(part.text for part in finished.parts if isinstance(part, TextPart))
    if part is None and not text.strip():
        return Wrong("it is empty" if finished.stop_reason != "length" else "it was cut off before it began")
    if len(text) > LONGEST or (part is not None and len(msgspec.json.encode(part.value)) > LONGEST):
        return Wrong(f"it is longer than {LONGEST:,} characters")
    value = _parse(text) if part is None else _only_answer(finished)
    return value if isinstance(value, Wrong) else _shaped(value)


def _only_answer(finished: Finished) -> Json | Wrong:
    """Return the first structured value, unless another one answers differently."""
    first, *others = [part.value for part in finished.parts if isinstance(part, StructuredPart)]
    if any(not json_equal(_answer_in(other), _answer_in(first)) for other in others):
        return Wrong("it gives several answers, and they differ")
    return first


def _answer_in(value: Json) -> Json:
    """Return what is answered, of which there may be several reasons."""
    return value.get("answer") if isinstance(value, Mapping) else value


def _shaped(value: Json) -> Verdict:
    if not isinstance(value, Mapping):
        return Wrong("it is not a JSON object with the keys `reason` and `answer`")
    if "answer" not in value:
        return Wrong("the key `answer` is missing")
    unknown = [key for key in value if key not in {"reason", "answer"}]
    if unknown:
        return Wrong(f"the key `{unknown[0]}` does not belong in it; the keys are `reason` and `answer`")
    reason = value.get("reason")
    if reason is not None and not isinstance(reason, str):
        return Wrong("`reason` is not a string")
    return ReadAnswer(value["answer"], _brief((reason or "").strip()) or None)


def _brief(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}…"


def _parse(text: str) -> Json | Wrong:
    """Read the text as one JSON object. Nothing is fished out of prose: it may quote an answer that it does not give."""
    try:
        return read_json(_unfenced(text.strip()))
    except NotJson as error:
        return Wrong(f"it is not a JSON object with the keys `reason` and `answer` ({error})")


def _unfenced(text: str) -> str:
    """Take a code fence away that holds the whole text."""
    opening, _, rest = text.partition("\n")
    if opening.strip() in {"```", "```json"} and rest.rstrip().endswith("```"):
        return rest.rstrip().removesuffix("```")
    return text

"""The parts of the JSON-Schema-Test-Suite for 2020-12 that the supported subset covers.

The licence of the suite is in its directory.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midturn.question.schema import check_schema
from midturn.question.schema_check import validate

SUITE = Path(__file__).parents[2] / "data" / "json_schema_suite" / "draft2020-12"
FILES = sorted(SUITE.rglob("*.json"))
RULES = {
    *(
        "is not allowed",
        "must be local",
        "is recursive",
        "does not point to a schema",
        "must be an object",
    ),
    "other dialects are not supported",
    *("unknown keyword", "linear time"),
}


class Case(msgspec.Struct):
    """One schema of the suite, with values and whether each is valid."""

    description: str
    schema: Any
    tests: list[dict[str, Any]]


def cases(file: Path) -> list[Case]:
    return msgspec.json.decode(file.read_bytes(), type=list[Case])


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_validation_agrees_with_the_suite_and_refusals_name_their_rule(file: Path) -> None:
    refused: Counter[str] = Counter()
    for case in cases(file):
        problems = check_schema(case.schema)
        if problems:
            refused[
                next(rule for rule in RULES if any(rule in problem.message for problem in problems))
            ] += 1
            continue
        for test in case.tests:
            assert (validate(case.schema, test["data"]) == ()) is test["valid"], (
                case.description,
                test["description"],
            )
    print(  # noqa: T201
        f"{file.stem}: {len(cases(file)) - refused.total()} accepted, {refused.total()} refused"
        f" {dict(refused) or ''}"
    )


def test_the_subset_accepts_most_of_the_suite() -> None:
    """Nearly every case is accepted for the keywords in the subset."""
    accepted = sum(not check_schema(case.schema) for file in FILES for case in cases(file))
    assert accepted >= 230

"""The JSON-Schema-Test-Suite for 2020-12, as far as the closed subset reaches (its licence lies beside it)."""

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
    *("is not allowed", "must be local", "leads back to itself", "leads to no schema", "must be an object", "other dialects are not read"),
    *("unknown keyword", "linear time"),
}


class Case(msgspec.Struct):
    """One schema of the suite, and values that are valid under it or not."""

    description: str
    schema: Any
    tests: list[dict[str, Any]]


def cases(file: Path) -> list[Case]:
    return msgspec.json.decode(file.read_bytes(), type=list[Case])


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_what_is_accepted_agrees_with_the_suite_and_what_is_refused_names_its_rule(file: Path) -> None:
    refused: Counter[str] = Counter()
    for case in cases(file):
        problems = check_schema(case.schema)
        if problems:
            refused[next(rule for rule in RULES if any(rule in problem.message for problem in problems))] += 1
            continue
        for test in case.tests:
            assert (validate(case.schema, test["data"]) == ()) is test["valid"], (case.description, test["description"])
    print(f"{file.stem}: {len(cases(file)) - refused.total()} accepted, {refused.total()} refused {dict(refused) or ''}")  # noqa: T201


def test_the_subset_covers_the_greater_part_of_the_suite() -> None:
    """Of the keywords that are in the subset, nearly every case is accepted."""
    accepted = sum(not check_schema(case.schema) for file in FILES for case in cases(file))
    assert accepted >= 230

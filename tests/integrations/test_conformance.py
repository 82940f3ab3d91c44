"""Every story of the conformance suite in every framework with an adapter, and the table of
them in the documents.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.testing.adapters.check import adapter_stories, check_adapter_sync, missing_in
from midturn.testing.adapters.program import Entry, Outcome, Program, Saved
from support.documents import ROOT, assert_section
from support.harnesses import FRAMEWORKS, harness_of
from support.harnesses.langgraph import PostgresHarness
from support.harnesses.pydantic_ai import Harness
from support.postgres import shared_cluster

PAGE = ROOT / "docs" / "frameworks" / "conformance.md"


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("story", adapter_stories())
def test_a_decision_counts_once_for_its_own_call(story: str, framework: str) -> None:
    harness = harness_of(framework)

    (result,) = check_adapter_sync(harness, [story])

    assert result.missing == missing_in(harness, story)


@pytest.mark.real("PostgreSQL")
@pytest.mark.parametrize("story", adapter_stories())
def test_a_decision_counts_once_with_checkpoints_in_postgresql(story: str) -> None:
    check_adapter_sync(PostgresHarness(shared_cluster().url), [story])


def test_documents_list_all_stories_and_unsupported_ones() -> None:
    harnesses = [harness_of(framework) for framework in FRAMEWORKS]
    reasons: list[str] = []
    rows = [
        f"| {' | '.join(['story', *(harness.name for harness in harnesses)])} |\n",
        f"|{' --- |' * (len(harnesses) + 1)}\n",
    ]
    for story, what in adapter_stories().items():
        cells = list[str]()
        for harness in harnesses:
            missing = missing_in(harness, story)
            if missing and missing not in reasons:
                reasons.append(missing)
            cells.append(f"no ({reasons.index(missing) + 1})" if missing else "yes")
        rows.append(f"| {what} | {' | '.join(cells)} |\n")
    notes = "".join(
        f"{number}. {reason[0].upper()}{reason[1:]}.\n" for number, reason in enumerate(reasons, 1)
    )

    assert_section(PAGE, "stories", f"\n{''.join(rows)}\n{notes}\n")


class UnsafeHarness(Harness):
    """A harness whose adapter says yes instead of the person."""

    async def run(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the agent. Tools get a yes without a question."""
        return await super().run(program, saved, replace(entry, inquirer=None))


def test_adapter_that_asks_nobody_fails() -> None:
    with pytest.raises(AssertionError, match="no_answer_yet"):
        check_adapter_sync(UnsafeHarness(), ["no_answer_yet"])

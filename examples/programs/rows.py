"""A job of 10,000 rows. Rules decide about most invalid rows, people about the rest.

$ python examples/programs/rows.py [DIRECTORY [ROWS]]    run it again after a crash or after answers: it resumes
$ midturn inbox --store var/rows                         lists the questions; `midturn answer` answers
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import Any

import midturn as mt

BATCH = 100
CURRENCY = {"when": {"problem": "no currency"}, "answer": "EUR", "reason": "We sell in euros."}
DOUBLE = {"when": {"problem": "there twice"}, "answer": "delete", "reason": "The first one counts."}


def problem(row: int) -> str:
    return (
        "no currency"
        if row % 50 == 7
        else "there twice"
        if row % 250 == 99
        else "no amount"
        if row % 1000 == 404
        else ""
    )


@mt.tool
async def mend(row: int, problem: str) -> str:
    """Have an odd row mended."""
    return (
        f"Row {row}:"
        f" {await mt.ask(mt.Question.text('value', f'Row {row}: {problem}. What belongs there?'))}"
    )


def model(request: mt.ModelRequest) -> dict[str, Any]:
    """Call the tool for each invalid row of a batch, as a model would."""
    first, last = request.events[0], request.events[-1]
    rows = (
        range(start := int(first.content.split()[1]), start + BATCH)
        if isinstance(first, mt.events.ChatRequest)
        else ()
    )
    odd = [
        {"name": "mend", "arguments": {"row": row, "problem": problem(row)}}
        for row in rows
        if problem(row)
    ]
    return {"calls": odd} if odd and last is first else {"text": "Done."}


async def main(directory: str = "var/rows", rows: str = "10000") -> None:
    """Run the new batches, resume the unfinished ones, and report."""
    rules, store = (
        mt.Rules({"mend.value": [CURRENCY, DOUBLE]}, name="house rules"),
        mt.open_store(directory),
    )
    agent = mt.Agent(mt.FunctionModel(model), tools=[mend], prompter=rules, store=store)
    begun = {(kept := await store.read(each)).title: kept for each in await store.ids()}

    async def run(batch: str) -> None:
        # without a turn, it died in its first write
        if (kept := begun.get(batch)) is None or not kept.turns:
            await agent.run(batch, conversation=kept.id if kept else None)
        elif kept.turns[-1].open:
            await agent.resume(kept.id)

    await asyncio.gather(*(run(f"Rows {first} and on") for first in range(0, int(rows), BATCH)))
    pairs = [pair for each in await store.ids() for pair in (await store.read(each)).pairs()]
    decided = [
        pair.response.answered_by
        for pair in pairs
        if isinstance(pair.response, mt.events.InquiryAnswered)
    ]
    who = Counter(by.user or by.name for by in decided if by).most_common()
    print(
        *(f"{count} decided by {name}" for name, count in who),
        f"{len(pairs) - len(decided)} open",
        sep=", ",
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

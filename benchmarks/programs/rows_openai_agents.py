# pyright: basic
"""A job of 10,000 rows on the OpenAI Agents SDK: a run per batch, an approval per row that people
decide about.

An approval is yes or no, so the text of a person is passed to the tool in the context of the run.

$ rows_openai_agents.py [DIRECTORY [ROWS]]               run or resume, and report
$ rows_openai_agents.py DIRECTORY answer CALL VALUE USER
"""

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, RunContextWrapper, Runner, RunState, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext

BATCH = 100
RULES = {"no currency": "EUR", "there twice": "delete"}
QUIET = RunConfig(tracing_disabled=True)


def problem(row: int) -> str:
    """Return the problem of a row, if any."""
    return (
        "no currency"
        if row % 50 == 7
        else "there twice"
        if row % 250 == 99
        else "no amount"
        if row % 1000 == 404
        else ""
    )


async def needs_a_person(_: RunContextWrapper[Any], arguments: dict[str, Any], call: str) -> bool:
    """Return whether no rule decides."""
    del call
    return arguments["problem"] not in RULES


@function_tool(needs_approval=needs_a_person)
def mend(context: ToolContext[dict[str, Any]], row: int, problem: str) -> str:
    """Have a row corrected by a rule or by a person."""
    said = (
        {"value": RULES[problem], "user": "house rules"}
        if problem in RULES
        else context.context["given"][context.tool_call_id]
    )
    context.context["decided"][str(row)] = said
    return f"Row {row}: {said['value']}"


def script(first: int) -> list[Any]:
    """Call the tool for each row with a problem, as a model would."""
    odd = [row for row in range(first, first + BATCH) if problem(row)]
    calls = [
        function_call("mend", {"row": row, "problem": problem(row)}, call_id=f"row-{row}")
        for row in odd
    ]
    return [calls, [assistant_message("Done.")]] if calls else [[assistant_message("Done.")]]


def agent(steps: list[Any]) -> Agent[dict[str, Any]]:
    """Return the agent at a position of its script."""
    return Agent(name="Rows", model=ScriptedModel(steps), tools=[mend])


def write(path: Path, data: Any) -> None:
    """Write a file atomically."""
    new = path.with_suffix(".new")
    with new.open("w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def keep(path: Path, result: Any, context: dict[str, Any]) -> None:
    """Store the decisions and the state of a suspended run."""
    open_calls = {item.call_id: json.loads(item.arguments or "{}") for item in result.interruptions}
    state = result.to_state().to_json() if open_calls else None
    write(path, {"decided": context["decided"], "open": open_calls, "state": state})


def waiting(directory: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return the calls that people decide about, with the files of their batches."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(directory.glob("*.run.json")):
        found |= {
            call: (path, arguments)
            for call, arguments in json.loads(path.read_text())["open"].items()
        }
    return found


def given(directory: Path, call: str) -> Path:
    """Return the path of the answer to a call."""
    return directory / f"{call}.answer.json"


def answer(directory: Path, call: str, value: str, user: str) -> None:
    """Store an answer; the next run of the job uses it."""
    if call not in waiting(directory) or given(directory, call).exists():
        sys.exit(f"{call} is not open.")
    write(given(directory, call), {"value": value, "user": user})


async def go_on(directory: Path, path: Path, calls: list[str]) -> None:
    """Resume a batch as far as it is answered."""
    answers = {
        call: json.loads(given(directory, call).read_text())
        for call in calls
        if given(directory, call).exists()
    }
    if not answers:
        return
    kept = json.loads(path.read_text())
    context = {"decided": kept["decided"], "given": answers}
    steps = [[assistant_message("Done.")]]
    state: RunState[Any, Any] = await RunState.from_json(
        agent(steps), kept["state"], context_override=RunContextWrapper(context)
    )
    for item in state.get_interruptions():
        if item.call_id in answers:
            state.approve(item)
    keep(path, await Runner.run(agent(steps), state, run_config=QUIET), context)


async def main(where: str = "var/rows", rows: str = "10000") -> None:
    """Run the new batches, resume the answered ones, and report."""
    directory = Path(where)
    directory.mkdir(parents=True, exist_ok=True)
    for first in range(0, int(rows), BATCH):
        path = directory / f"{first}.run.json"
        if not path.exists():
            context: dict[str, Any] = {"decided": {}, "given": {}}
            result = await Runner.run(
                agent(script(first)), f"Rows {first} and on", context=context, run_config=QUIET
            )
            keep(path, result, context)
    batches: dict[Path, list[str]] = {}
    for call, (path, _) in waiting(directory).items():
        batches.setdefault(path, []).append(call)
    for path, calls in batches.items():
        await go_on(directory, path, calls)
    kept = [json.loads(path.read_text())["decided"] for path in directory.glob("*.run.json")]
    who = Counter(said["user"] for decided in kept for said in decided.values())
    still = waiting(directory)
    print(
        *(f"{count} decided by {name}" for name, count in who.most_common()),
        f"{len(still)} open",
        sep=", ",
    )
    for call, (_, arguments) in still.items():
        print(call, "Row {row}: {problem}. What belongs there?".format(**arguments))


if __name__ == "__main__":
    if sys.argv[2:3] == ["answer"]:
        answer(Path(sys.argv[1]), *sys.argv[3:])
    else:
        asyncio.run(main(*sys.argv[1:]))

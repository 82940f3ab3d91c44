# pyright: basic
"""A job of 10,000 rows on Pydantic AI: a run per batch, its messages in a file, a deferred call
per row that people decide about.

$ rows_pydantic_ai.py [DIRECTORY [ROWS]]               run or resume, and report
$ rows_pydantic_ai.py DIRECTORY answer CALL VALUE USER
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, DeferredToolResults, ToolReturn
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

BATCH = 100
RULES = {"no currency": "EUR", "there twice": "delete"}


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


def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Call the tool for each row with a problem, as a model would."""
    newest = messages[-1].parts[-1]
    if not isinstance(newest, UserPromptPart):
        return ModelResponse([TextPart("Done.")])
    rows = range(start := int(str(newest.content).split()[1]), start + BATCH)
    calls = [
        ToolCallPart("mend", {"row": row, "problem": problem(row)}, f"row-{row}")
        for row in rows
        if problem(row)
    ]
    return ModelResponse(calls or [TextPart("Done.")])


agent: Agent[None, str | DeferredToolRequests] = Agent(
    FunctionModel(model), output_type=[str, DeferredToolRequests]
)


@agent.tool_plain
def mend(row: int, problem: str) -> ToolReturn:
    """Have a row corrected by a rule or by a person."""
    if problem in RULES:
        return ToolReturn(f"Row {row}: {RULES[problem]}", metadata={"by": "house rules"})
    raise CallDeferred


def write(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def read(path: Path) -> list[ModelMessage]:
    """Read the messages of a batch."""
    return ModelMessagesTypeAdapter.validate_json(path.read_bytes())


def returned(messages: list[ModelMessage]) -> dict[str, ToolReturnPart]:
    """Return the results by call."""
    parts = (
        part for message in messages if isinstance(message, ModelRequest) for part in message.parts
    )
    return {part.tool_call_id: part for part in parts if isinstance(part, ToolReturnPart)}


def waiting(directory: Path) -> dict[str, tuple[Path, ToolCallPart]]:
    """Return the calls that people decide about, with the files of their batches."""
    found: dict[str, tuple[Path, ToolCallPart]] = {}
    for path in sorted(directory.glob("*.messages.json")):
        messages = read(path)
        done = returned(messages).keys()
        for message in messages:
            calls = message.tool_calls if isinstance(message, ModelResponse) else []
            found |= {
                call.tool_call_id: (path, call) for call in calls if call.tool_call_id not in done
            }
    return found


def given(directory: Path, call: str) -> Path:
    """Return the path of the answer to a call.

    A batch is resumed when all of its calls are answered.
    """
    return directory / f"{call}.answer.json"


def answer(directory: Path, call: str, value: str, user: str) -> None:
    """Store an answer; the next run of the job uses it."""
    if call not in waiting(directory) or given(directory, call).exists():
        sys.exit(f"{call} is not open.")
    write(given(directory, call), json.dumps({"value": value, "user": user}).encode())


def go_on(directory: Path) -> None:
    """Resume the answered batches."""
    batches: dict[Path, list[ToolCallPart]] = {}
    for path, call in waiting(directory).values():
        batches.setdefault(path, []).append(call)
    for path, calls in batches.items():
        answers = {call.tool_call_id: given(directory, call.tool_call_id) for call in calls}
        if not all(file.exists() for file in answers.values()):
            continue
        results = DeferredToolResults()
        for call in calls:
            said, arguments = (
                json.loads(answers[call.tool_call_id].read_bytes()),
                call.args_as_dict(),
            )
            results.calls[call.tool_call_id] = ToolReturn(
                f"Row {arguments['row']}: {said['value']}", metadata={"by": said["user"]}
            )
        result = agent.run_sync(message_history=read(path), deferred_tool_results=results)
        write(path, result.all_messages_json())


def main(where: str = "var/rows", rows: str = "10000") -> None:
    """Run the new batches, resume the answered ones, and report."""
    directory = Path(where)
    directory.mkdir(parents=True, exist_ok=True)
    for first in range(0, int(rows), BATCH):
        path = directory / f"{first}.messages.json"
        if not path.exists():
            write(path, agent.run_sync(f"Rows {first} and on").all_messages_json())
    go_on(directory)
    who: Counter[str] = Counter()
    for path in directory.glob("*.messages.json"):
        who.update(part.metadata["by"] for part in returned(read(path)).values() if part.metadata)
    still = waiting(directory)
    print(
        *(f"{count} decided by {name}" for name, count in who.most_common()),
        f"{len(still)} open",
        sep=", ",
    )
    for call, (_, part) in still.items():
        print(call, "Row {row}: {problem}. What belongs there?".format(**part.args_as_dict()))


if __name__ == "__main__":
    if sys.argv[2:3] == ["answer"]:
        answer(Path(sys.argv[1]), *sys.argv[3:])
    else:
        main(*sys.argv[1:])

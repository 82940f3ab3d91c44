"""Start-up times: the import, `--version`, hooks, and `query` until its first byte.

Prints medians; asserts nothing.

Times are processor times, on which other processes have little influence. Only the time to the
first byte is wall time.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROUNDS = 15
NAMES = "from midturn import Agent, Question, open_store, tool"
TURN = f"""
import asyncio, sys, tempfile
{NAMES}
from midturn import FunctionModel
from midturn.exchange import ToolCallPart

async def deploy(env: str) -> Question:
    "Deploy the service."
    return Question.select("region", "Which region?", ["eu-1", "us-2"])

with tempfile.TemporaryDirectory() as directory:
    model = FunctionModel(lambda request: ToolCallPart("call_1", "deploy", {{"env": "staging"}}))
    agent = Agent(model, tools=[tool(deploy)], store=open_store(directory))
    assert asyncio.run(agent.run("Ship it")).pending
"""
"""A program with an agent and a tool. It runs a turn until the tool's question is on disk."""


def installed() -> dict[str, str]:
    """Return an environment in which Python caches compiled modules, as for an installed
    package.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def spent() -> float:
    """Return the processor time, user and system, of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(command: list[str], given: bytes = b"", cwd: Path | None = None) -> float:
    """Return the processor time of a command. `given` is its stdin."""
    before = spent()
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        input=given,
        env=installed(),
        cwd=cwd,
    )
    return spent() - before


EVENTS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "claude, a call is over": (
        "claude",
        {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}},
    ),
    "claude, its turn ends": ("claude", {"hook_event_name": "Stop"}),
    "codex, before a call": (
        "codex",
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}},
    ),
    "gemini, its turn ends": ("gemini", {"hook_event_name": "AfterAgent"}),
    "qwen, before a call": (
        "qwen",
        {"hook_event_name": "PreToolUse", "tool_name": "write_file", "tool_input": {}},
    ),
    "copilot, before a call": ("copilot", {"toolName": "bash", "toolArgs": {}}),
}
"""Hook inputs of agents for which no question is asked, which is the common case."""


def hooks(cwd: Path) -> dict[str, float]:
    """Return the times of agent hooks in a workspace without open questions."""
    found: dict[str, float] = {}
    for what, (agent, event) in EVENTS.items():
        given = json.dumps({"session_id": "s", "cwd": str(cwd), **event}).encode()
        command = [sys.executable, "-m", "midturn", "hook", agent]
        found[what] = median(lambda command=command, given=given: seconds(command, given, cwd))
    return found


def to_first_byte(
    command: list[str], cwd: Path, environment: Mapping[str, str] | None = None
) -> float:
    """Return the time until a command writes its first byte to stdout."""
    start = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    ) as process:
        if process.stdout is None or not process.stdout.read(1):
            raise SystemExit("the command printed nothing")
        took = time.perf_counter() - start
        process.stdout.read()
    return took


def median(measure: Callable[[], float]) -> float:
    """Return the median of several rounds in milliseconds."""
    return statistics.median(measure() for _ in range(ROUNDS)) * 1e3


def main() -> None:
    """Print one line per measurement."""
    python = sys.executable
    bare = median(lambda: seconds([python, "-c", "pass"]))
    imported = median(lambda: seconds([python, "-c", "import midturn"]))
    agent = median(lambda: seconds([python, "-c", NAMES]))
    turn = median(lambda: seconds([python, "-c", TURN]))
    floor = median(lambda: seconds([python, "-c", "import asyncio, msgspec"]))
    version = median(lambda: seconds([python, "-m", "midturn", "--version"]))
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "play.json").write_text(
            json.dumps({"replies": [{"text": "Hello."}] * (ROUNDS + 1)})
        )
        os.environ["XDG_STATE_HOME"] = directory
        subprocess.run(
            [python, "-m", "midturn", "init"], cwd=root, check=True, stdout=subprocess.DEVNULL
        )
        query = [python, "-m", "midturn", "query", "-m", "scripted:play.json", "hello"]
        first = median(lambda: to_first_byte(query, root, installed()))
        asked = hooks(root)
        inbox = median(lambda: seconds([python, "-m", "midturn", "inbox"], cwd=root))
    print(f"bare Python              {bare:7.1f} ms")
    print(f"import midturn           {imported:7.1f} ms  (+{imported - bare:.1f})")
    print(f"  with what one begins with {agent:4.1f} ms  (+{agent - bare:.1f})")
    print(f"  and a turn, to its question {turn:4.1f} ms  (+{turn - bare:.1f})")
    print(f"    asyncio and msgspec alone {floor:4.1f} ms  (+{floor - bare:.1f})")
    print(f"midturn --version        {version:7.1f} ms  (+{version - bare:.1f})")
    for what, took in asked.items():
        print(f"hook: {what:25} {took:6.1f} ms  (+{took - bare:.1f})")
    print(f"midturn inbox            {inbox:7.1f} ms  (+{inbox - bare:.1f})")
    print(f"query to its first byte  {first:7.1f} ms  (+{first - bare:.1f})")


if __name__ == "__main__":
    main()

"""Latency of prompts and key echoes, measured at the other end of a pseudo terminal.

Run `python benchmarks/terminal.py [rounds]`. The goals: a prompt is painted within 15 ms of its
question in a warm process, and a key is echoed within 8 ms at the 99th percentile of 1,000 keys,
both in a prompt and in the input line below a running turn of `midturn chat`. Painting is
measured twice: from the call of the prompter to the last row, and in a whole turn, from the bytes
with which a subprocess asks to the first cell of the question. Prints times; asserts nothing.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pty
import select
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import midturn as mt
from midturn.events.prompt import Prompt
from midturn.exchange import ModelRequest, TextPart, ToolCallPart
from midturn.question.question import Question
from midturn.terminal.capabilities import TerminalSettings
from midturn.terminal.prompter import TerminalPrompter
from midturn.tools.command import CommandSpec, CommandTool

CONTEXT = "\n".join(
    [
        "I want to change the loop:",
        "",
        "```diff",
        *(f"+line {number}" for number in range(60)),
        "```",
    ]
)
CONFIRM = Prompt(
    question=Question.boolean("apply", "Apply the patch?", context=CONTEXT), asked_by="Assistant"
)
NOTE = Prompt(question=Question.text("note", "Note for the log?"), asked_by="Assistant")
PROMPTED = b"all keys"
# matches the row that stays after the question; the row of keys contains "yes" too
ANSWERED = b"\x1b[0;1myes"
FIELD = b"Enter submits"
WARM_UP = 3
KEYS = 1_000
QUESTION = "Deploy it now?"
ASKER = f"""
import json, os, sys, time
answers = json.load(sys.stdin)["tool"]["answers"]
ask = {{"type": "needs_input", "question": {{"id": "now", "text": "{QUESTION}", "answer_type": {{"type": "boolean"}}}}}}
said = json.dumps({{"type": "success", "content": "done"}} if answers else ask).encode()
if not answers:
    os.write(os.open(os.environ["MOMENTS"], os.O_WRONLY), f"{{time.perf_counter()}}\\n".encode())
os.write(1, said)
os._exit(0)
"""
"""A command that asks and prints the time of its question.

All processes of a machine share the clock.
"""


async def ask(rounds: int) -> None:
    """In the child process: ask for a text once, then yes or no in every round, printing the
    times.
    """
    prompter = TerminalPrompter(TerminalSettings(settle_ms=0, notify=False, bell=False))
    gc.freeze()  # as the command line does
    await prompter.prompt(NOTE)
    for _ in range(rounds):
        os.write(3, f"{time.perf_counter()}\n".encode())
        await prompter.prompt(CONFIRM)


async def turns(rounds: int, moments: str) -> None:
    """In the child process: run a turn in every round, in which a command asks."""
    spec = CommandSpec(
        name="deploy",
        command=(sys.executable, "-ISc", ASKER),
        protocol="outcome",
        environment={"MOMENTS": moments},
    )
    prompter = TerminalPrompter(TerminalSettings(settle_ms=0, notify=False, bell=False))
    gc.freeze()
    agent = mt.Agent(mt.FunctionModel(_deploys), tools=[CommandTool(spec)], prompter=prompter)
    for _ in range(rounds):
        await agent.run("Ship it")


def _deploys(request: ModelRequest) -> ToolCallPart | TextPart:
    return (
        TextPart("Done.")
        if request.events[-1].type == "tool_call_response"
        else ToolCallPart("call_1", "deploy", {})
    )


class Master:
    """The other end of the child's terminal.

    Output after an awaited text is kept for the next call.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._seen = b""

    def write(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def read_until(self, text: bytes) -> float:
        """Return the time at which the last byte of `text` was readable."""
        while text not in self._seen:
            select.select([self._fd], [], [])
            self._seen += os.read(self._fd, 65_536)
        now = time.perf_counter()
        self._seen = self._seen.partition(text)[2]
        return now


def echoes(master: Master, keys: int) -> list[float]:
    """Type into the field; return the seconds until each key was echoed."""
    found: list[float] = []
    for number in range(keys):
        pressed = time.perf_counter()
        master.write(b"%c" % (ord("a") + number % 26))
        found.append(master.read_until(b"%c" % (ord("a") + number % 26)) - pressed)
        time.sleep(0.01)
    return found


def paints(master: Master, asked: int, rounds: int, shown: bytes) -> list[float]:
    """Answer each prompt; return the seconds from the question until `shown` was painted."""
    found: list[float] = []
    with os.fdopen(asked) as questions:
        for _ in range(rounds):
            moment = float(questions.readline())
            found.append(master.read_until(shown) - moment)
            if shown != PROMPTED:
                master.read_until(PROMPTED)
            master.write(b"y")
            master.read_until(ANSWERED)
    return found


def percentiles(seconds: list[float]) -> str:
    """Return the median and the 99th percentile in milliseconds."""
    milliseconds = sorted(1_000 * value for value in seconds)
    last = milliseconds[min(len(milliseconds) - 1, int(len(milliseconds) * 0.99))]
    return f"{statistics.median(milliseconds):.2f} ms, {last:.2f} ms"


def prompts(rounds: int) -> tuple[list[float], list[float]]:
    """Measure prompts without a turn: key echoes and paints."""
    asked, saying = os.pipe()
    child, master = _on_a_terminal(lambda: ask(rounds + WARM_UP), saying)
    master.read_until(FIELD)
    typed = echoes(master, KEYS)
    master.write(b"\r")
    painted = paints(master, asked, rounds + WARM_UP, PROMPTED)
    os.waitpid(child, 0)
    return typed[WARM_UP:], painted[WARM_UP:]


def whole_turns(rounds: int) -> list[float]:
    """Measure prompts in turns."""
    with tempfile.TemporaryDirectory() as folder:
        moments = Path(folder, "moments")
        os.mkfifo(moments)
        asked = os.open(moments, os.O_RDWR)
        child, master = _on_a_terminal(lambda: turns(rounds + WARM_UP, str(moments)), None)
        painted = paints(master, asked, rounds + WARM_UP, QUESTION.encode())
        os.waitpid(child, 0)
    return painted[WARM_UP:]


HOLDING = """
[conversation.tools.hold]
source = "local"
summary = "Hold the turn until the gate is written to."
command = ["/bin/sh", "-c", "read line < gate; echo gone on"]
run = "unattended"
"""
PLAYED = """
[[replies]]
calls = [{ name = "hold" }]

[[replies]]
text = "Done."
"""


def below_a_turn() -> list[float]:
    """Measure key echoes in the input line below a running turn."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / ".config" / "midturn").mkdir(parents=True)
        (home / ".config" / "midturn" / "config.toml").write_text(HOLDING)
        (home / "play.toml").write_text(PLAYED)
        os.mkfifo(home / "gate")
        child, fd = pty.fork()
        if child == 0:
            os.chdir(home)
            environment = {
                "HOME": folder,
                "PATH": os.environ["PATH"],
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
            }
            os.execve(
                sys.executable,
                [sys.executable, "-m", "midturn", "chat", "-m", "scripted:play.toml"],
                environment,
            )
        master = Master(fd)
        master.read_until(b"Ctrl-D")
        time.sleep(1)  # time until the line is drawn
        master.write(b"Go on\r")
        master.read_until(b"hold")
        time.sleep(1)
        found: list[float] = []
        # different characters, so that the row is redrawn with every key
        for number in range(KEYS):
            key = chr(0x4E00 + number).encode()
            pressed = time.perf_counter()
            master.write(key)
            found.append(master.read_until(key) - pressed)
            time.sleep(0.01)
        (home / "gate").write_text("go on\n")
        master.read_until(b"Done.")
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
    return found[WARM_UP:]


def measured(rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Return seconds of echoes, of paints, and from a command's question to its first cell."""
    return (*prompts(rounds), whole_turns(rounds))


def _on_a_terminal(
    work: Callable[[], Coroutine[None, None, None]], saying: int | None
) -> tuple[int, Master]:
    """Fork a child onto its own terminal; return its PID and the terminal's other end."""
    child, fd = pty.fork()
    if child == 0:
        if saying is not None:
            os.dup2(saying, 3)
        os.environ["TERM"] = "xterm-256color"
        asyncio.run(work())
        os._exit(0)
    if saying is not None:
        os.close(saying)
    return child, Master(fd)


if __name__ == "__main__":
    ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    ECHOES, PAINTS, OUTCOMES = measured(ROUNDS)
    print(f"key echo               {percentiles(ECHOES)} at the 99th percentile; the goal: 8 ms")
    print(f"key echo below a turn  {percentiles(below_a_turn())}; the goal: 8 ms")
    print(f"paint of a prompt      {percentiles(PAINTS)}; the goal: 15 ms, warm")
    print(f"outcome to first cell  {percentiles(OUTCOMES)}; the goal: 30 ms, warm")

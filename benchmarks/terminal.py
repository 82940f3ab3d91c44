"""How soon a prompt is painted and a key echoes, measured at the other end of a pseudo terminal.

Run `python benchmarks/terminal.py [rounds]`. The goals of the specification (5.4): the first paint within 30 ms of the question in a warm
process, the echo of a key within 8 ms at the 99th percentile. Numbers are printed, nothing is asserted.
"""

from __future__ import annotations

import asyncio
import os
import pty
import select
import statistics
import sys
import time

from midturn.core.prompt import Prompt
from midturn.core.question import Question
from midturn.terminal.prompter import TerminalPrompter
from midturn.terminal.settings import PromptSettings

CONTEXT = "\n".join(["I want to change the loop:", "", "```diff", *(f"+line {number}" for number in range(60)), "```"])
CONFIRM = Prompt(question=Question.boolean("apply", "Apply the patch?", context=CONTEXT), asked_by="Assistant")
NOTE = Prompt(question=Question.text("note", "Note for the log?"), asked_by="Assistant")
PROMPTED = b"[y,n,p,r,s,?]"
FIELD = b"Enter submits"
WARM_UP = 3


async def ask(rounds: int) -> None:
    """In the child: ask for a text once, then yes or no in every round, saying when."""
    prompter = TerminalPrompter(PromptSettings(settle=0, notify=False, bell=False))
    await prompter.prompt(NOTE)
    for _ in range(rounds):
        os.write(3, f"{time.perf_counter()}\n".encode())
        await prompter.prompt(CONFIRM)


def read_until(master: int, text: bytes) -> float:
    """Return when the last byte of `text` was there to be read."""
    seen = b""
    while text not in seen:
        select.select([master], [], [])
        seen += os.read(master, 65_536)
    return time.perf_counter()


def echoes(master: int, keys: int) -> list[float]:
    """Type into the field; return the seconds until each key was written back."""
    found: list[float] = []
    for number in range(keys):
        pressed = time.perf_counter()
        os.write(master, b"%c" % (ord("a") + number % 26))
        found.append(read_until(master, b"%c" % (ord("a") + number % 26)) - pressed)
        time.sleep(0.01)
    return found


def paints(master: int, asked: int, rounds: int) -> list[float]:
    """Answer each prompt; return the seconds from the question to its last row."""
    found: list[float] = []
    with os.fdopen(asked) as questions:
        for _ in range(rounds):
            moment = float(questions.readline())
            found.append(read_until(master, PROMPTED) - moment)
            os.write(master, b"y")
    return found


def tell(what: str, seconds: list[float], goal: str) -> None:
    """Print a median and the 99th percentile in milliseconds."""
    milliseconds = sorted(1_000 * value for value in seconds)
    last = milliseconds[min(len(milliseconds) - 1, int(len(milliseconds) * 0.99))]
    print(f"{what:12} median {statistics.median(milliseconds):6.2f} ms   p99 {last:6.2f} ms   n={len(milliseconds)}   goal: {goal}")


def main(rounds: int) -> None:
    """Fork a child onto a terminal of its own and measure it."""
    asked, saying = os.pipe()
    child, master = pty.fork()
    if child == 0:
        os.dup2(saying, 3)
        os.environ["TERM"] = "xterm-256color"
        asyncio.run(ask(rounds + WARM_UP))
        os._exit(0)
    os.close(saying)
    read_until(master, FIELD)
    typed = echoes(master, 300)
    os.write(master, b"\r")
    painted = paints(master, asked, rounds + WARM_UP)
    os.waitpid(child, 0)
    tell("first paint", painted[WARM_UP:], "at most 30 ms, warm")
    tell("key echo", typed[WARM_UP:], "at most 8 ms at p99")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)

"""A suspended turn without a store is lost with its process. A warning says so once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import midturn as mt

@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    "Deploy."
    return str(await ctx.ask(mt.Question.boolean("sure", "Sure?")))

model = mt.FunctionModel(lambda request: {"calls": [{"name": "deploy"}]})
for _ in range(2):
    agent = mt.Agent(model, tools=[deploy], STORE)
    print(agent.run_sync("Go.", prompter=PROMPTER).status)
"""
WARNING = (
    "A turn waits for an answer in the memory of this process. It is lost when the process ends."
    ' Pass `store=midturn.open_store("conversations")` to keep it on disk, or'
    " `store=midturn.MemoryStore()` to keep it in memory without this warning.\n"
)


def run(directory: Path, store: str, prompter: str = "None") -> tuple[str, str]:
    program = PROGRAM.replace("STORE", store).replace("PROMPTER", prompter)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=directory, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("prompter", ["None", "mt.ScriptedPrompter({}, unscripted='unavailable')"])
def test_turn_without_a_store_warns_once_per_process(tmp_path: Path, prompter: str) -> None:
    assert run(tmp_path, "", prompter) == ("suspended\nsuspended\n", WARNING)


@pytest.mark.parametrize(
    "store", ['store=mt.open_store("conversations")', "store=mt.MemoryStore()"]
)
def test_turn_in_a_store_of_the_program_does_not_warn(tmp_path: Path, store: str) -> None:
    assert run(tmp_path, store) == ("suspended\nsuspended\n", "")

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.programs import NO_PYTEST_PLUGINS

TEST = """
import asyncio
import midturn as mt
import pytest
from midturn.events.prompt import Prompt
from midturn.question.question import Question

PROMPT = Prompt(question=Question.boolean("confirm", "Deploy?"), tool="deploy")

def test_all_used(scripted_prompter):
    asyncio.run(scripted_prompter({"deploy.confirm": True}).prompt(PROMPT))

def test_left_over(scripted_prompter):
    scripted_prompter({"deploy.confirm": True})

def test_the_rest(scripted_model, recorded_pairs, assert_answers):
    assert scripted_model([]).name == "scripted"
    assert recorded_pairs([]) == []
    assert_answers([], {})

def broken() -> str:
    raise KeyError("nope")

CALL = {"calls": [{"name": "broken", "arguments": {}}]}

def test_a_tool_raises(scripted_model):
    mt.Agent(scripted_model([CALL, {"text": "Done."}]), tools=[broken]).run_sync("Go.")

def test_a_tool_may_raise(scripted_model):
    mt.Agent(scripted_model([CALL, {"text": "Done."}], tool_errors="allow"), tools=[broken]).run_sync("Go.")

def test_an_expectation_fails(scripted_model):
    mt.Agent(scripted_model([{"expect": "Please", "text": "Done."}])).run_sync("Go.")

@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    return str(await ctx.ask(mt.Question.boolean("confirm", "Go?")))

def test_a_misspelt_tool(scripted_model):
    call = {"calls": [{"name": "depoly", "arguments": {"env": "a"}}]}
    mt.Agent(scripted_model([call, {"text": "Done."}]), tools=[deploy]).run_sync("Go.").raise_if_failed()

def test_a_misspelt_argument(scripted_model):
    call = {"calls": [{"name": "deploy", "arguments": {"evn": "a"}}]}
    mt.Agent(scripted_model([call, {"text": "Done."}]), tools=[deploy]).run_sync("Go.").raise_if_failed()

def test_a_tool_that_is_meant_to_be_unknown(scripted_model):
    call = {"calls": [{"name": "depoly", "arguments": {"env": "a"}}]}
    mt.Agent(scripted_model([call, {"text": "Done."}], tool_errors="allow"), tools=[deploy]).run_sync("Go.").raise_if_failed()

def test_a_misspelt_question_without_fixtures():
    call = {"calls": [{"name": "deploy", "arguments": {"env": "a"}}]}
    person = mt.ScriptedPrompter({"deploy.confrim": True})
    agent = mt.Agent(mt.ScriptedModel([call, {"text": "Done."}]), tools=[deploy], prompter=person)
    with pytest.raises(mt.MidturnError, match="The script has no reply for `deploy.confirm`: 'Go[?]'. It has: `deploy.confrim`."):
        agent.run_sync("Go.").raise_if_failed()

def test_model_replies_are_left_over(scripted_model):
    mt.Agent(scripted_model([{"text": "One."}, {"text": "Two."}])).run_sync("Go.")
"""


@pytest.mark.long
def test_the_fixtures_are_available_and_unused_replies_fail_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_deploy.py").write_text(TEST)

    options = [
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "-p",
        "no:midturn",
        "-p",
        "midturn.testing.plugin",
        "-p",
        "no:randomly",
        *NO_PYTEST_PLUGINS,
    ]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "11 passed, 6 errors" in run.stdout, run.stdout + run.stderr
    assert "reply 1: There is no tool named 'depoly'. The tools are: deploy." in run.stdout
    assert "reply 1: deploy has no argument 'evn'. It has: env." in run.stdout
    assert "The tool 'broken' failed: KeyError: 'nope'" in run.stdout
    assert "expects at reply 1 that the newest message contains:" in run.stdout
    assert "The script has 1 reply left over." in run.stdout
    assert "replies left over: `deploy.confirm` was never asked" in run.stdout


def test_the_plugin_costs_other_projects_almost_nothing() -> None:
    code = (
        "import sys, midturn.testing.plugin; print([name for name in sys.modules if"
        " name.startswith('midturn.')])"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "['midturn.testing', 'midturn.testing.plugin']"

"""Every example runs unchanged and prints its documented output."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.programs import play
from support.pty_session import PtySession

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAYED_ELSEWHERE = {
    "agui/agent.py": "web/browser/test_agui_page.py",
    "agui/page_server.py": "web/browser/test_agui_page.py",
    "plug-in/src/midturn_team/__init__.py": "examples/test_plug_in.py",
    "plug-in/src/midturn_team/agent.py": "examples/test_plug_in.py",
    "plug-in/src/midturn_team/channel.py": "examples/test_plug_in.py",
    "plug-in/src/midturn_team/command.py": "examples/test_plug_in.py",
    "plug-in/src/midturn_team/store.py": "examples/test_plug_in.py",
    "plug-in/src/midturn_team/tool.py": "examples/test_plug_in.py",
    "programs/at_once.py": "examples/test_programs.py",
    "programs/judges.py": "examples/test_programs.py",
    "programs/migrated.py": "examples/test_programs.py",
    "programs/own_server.py": "examples/test_programs.py",
    "programs/rows.py": "examples/test_programs.py",
    "programs/service.py": "examples/test_programs.py",
    "programs/support.py": "examples/test_programs.py",
    "programs/test_deploy.py": "examples/test_programs.py",
    "server/worker.py": "agent/test_server_example.py",
    "web/deploying.py": "web/test_mounted.py",
    "web/with_django.py": "web/test_mounted.py",
    "web/with_fastapi.py": "web/test_mounted.py",
}
"""Tests that run the examples without output of their own."""

FIRST_AGENT = """\
I will deploy it.

That is all.
Deploy to staging? True
Which region? us-2
"""
FOUR_QUESTIONS = """\
[1/4] Apply the migration?  True
[2/4] Which environment?  staging
[4/4] Anything that I should know?  (back)
[2/4] Which environment?  production
[3/4] Make a backup first?  True
[4/4] Anything that I should know?  None
[1/1] Send these answers?  (Submitted)
Some questions before I start.

Thank you. I know what to do.
{"apply": true, "env": "production", "backup": true, "note": null}
"""
TYPED_ANSWERS = """\
Done.
1
False EUROPE later 3 by user because it is much
True AMERICA 3 web SHOP None 06 SecretValue(hidden)
"""
CHAT = """\
deploy: Deploy to staging?  [yes] [no]
deploy: Deploy to production?  [yes] [no]
(answered by ada)
The user reviewed the `deploy` call and rejected it.

Question: Deploy to production?
Reason: "Not on a Friday."

Not deployed.
staging is live.
One of the two is live.
"""
OWN_LOOP = """\
waits for: Deploy to staging?
waits for: Which region?
staging is live in us-2.
"""
PYDANTIC_AI = """\
deploy: Where does staging go?
drop: Run drop?
staging is live in us-2. old is gone.
"""
LANGGRAPH = """\
Which region?
Tell them: staging is live in us-2.?
A word after 2?
staging is live in us-2. Everybody knows. Well done.
"""
OPENAI_AGENTS = """\
drop: Run drop?
deploy: Where does staging go?
staging is live in us-2. old is gone. Both are done.
"""
PRINTED: dict[str, tuple[list[str], str]] = {
    "first_agent.py": ([], FIRST_AGENT),
    "four_questions.py": (["--script"], FOUR_QUESTIONS),
    "typed_answers.py": ([], TYPED_ANSWERS),
    "chat.py": ([], CHAT),
    "own_loop.py": (["conversations"], OWN_LOOP),
    "frameworks/with_pydantic_ai.py": ([], PYDANTIC_AI),
    "frameworks/with_langgraph.py": ([], LANGGRAPH),
    "frameworks/with_openai_agents.py": ([], OPENAI_AGENTS),
}


@pytest.mark.parametrize("name", PRINTED)
def test_example_prints_its_documented_output(name: str, tmp_path: Path) -> None:
    """Runs without a terminal, network access or warnings."""
    arguments, expected = PRINTED[name]
    played = play(EXAMPLES / name, tmp_path, *arguments)
    assert (played.stdout, played.stderr, played.returncode) == (expected, "", 0)


def test_every_example_is_run() -> None:
    found = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")}
    assert found == {*PRINTED, *PLAYED_ELSEWHERE}


@pytest.mark.parametrize(("name", "tests"), PLAYED_ELSEWHERE.items())
def test_example_run_elsewhere_is_named_in_that_test(name: str, tests: str) -> None:
    """A program is named by its own name, a part of a package by the package's name."""
    called = "plug-in" if name.startswith("plug-in/") else Path(name).stem.removeprefix("with_")
    assert f'"{called}' in (EXAMPLES.parent / "tests" / tests).read_text(encoding="utf-8")


def test_the_form_may_be_answered_at_a_terminal() -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / "four_questions.py")]
    with PtySession(command, environment={"TERM": "dumb"}, size=(100, 60)) as person:
        for text, keys in (
            ("question 1 of 4", "n\r"),
            ("question 4 of 4", "-\r"),
            ("Send these answers?", "\r"),
        ):
            person.wait_for(text)
            person.wait_until_heard()
            person.wait_for_quiet(0.5)
            person.send(keys)
        assert person.wait_for_end() == 0
        assert '{"apply": false, "env": null, "backup": null, "note": ' in person.text

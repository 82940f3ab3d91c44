"""Who is there to be asked."""

from __future__ import annotations

from typing import Any

import pytest

from midturn.cli.locked import is_attached
from support.cli import CommandLine, asks, calls


@pytest.mark.parametrize(("variable", "value"), [("CI", "true"), ("MIDTURN_NON_INTERACTIVE", "1")])
def test_variables_say_that_nobody_is_there(midturn: CommandLine, variable: str, value: str) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks(exclusive=True)))
    one: Any = {variable: value}

    with midturn.on_a_terminal("query", "-m", model, "Ship it", **one) as terminal:
        assert terminal.wait_for_end() == 4

    assert "all keys" not in terminal.text


def test_a_variable_that_is_off_says_nothing() -> None:
    assert not is_attached({"CI": "1"}, non_interactive=False)
    assert not is_attached({}, non_interactive=True)
    assert is_attached({"CI": "false"}, non_interactive=False) == is_attached({}, non_interactive=False)


def test_the_flag_says_that_nobody_is_there(midturn: CommandLine) -> None:
    midturn.asker()

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=asks(exclusive=True))), "--non-interactive", "hi"
    ) as terminal:
        assert terminal.wait_for_end() == 4


def test_piped_stdin_and_stdout_change_nothing_and_never_answer(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.hasty()
    midturn.script(calls("deploy", ask=asks()))
    pipe = f'printf "y\\nn\\n" | midturn query -m scripted:{midturn.root}/play.json | cat > out.txt; echo "ended $?"'
    script = midturn.root / "pipe.sh"
    script.write_text(pipe.replace("midturn query", "python -m midturn query"))

    with midturn.on_a_terminal_run("/bin/sh", str(script)) as terminal:
        terminal.wait_for("Deploy to staging?")
        terminal.wait_at(": ")
        terminal.send("y\r")
        terminal.wait_for("ended 0")

    assert (midturn.root / "out.txt").read_text() == "Done.\n"
    assert next(event["content"] for event in midturn.events() if event["type"] == "chat_request") == "y\nn\n"
    assert next(event["answer"] for event in midturn.events() if event["type"] == "inquiry_response") is True


def test_a_job_in_the_background_is_not_stopped_but_counts_as_nobody(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.script(calls("deploy", ask=asks(exclusive=True)))
    script = midturn.root / "job.sh"
    script.write_text(f'set -m\npython -m midturn query -m scripted:{midturn.root}/play.json hi &\nwait $!\necho "ended $?"\n')

    with midturn.on_a_terminal_run("/bin/sh", str(script)) as terminal:
        terminal.wait_for("ended 4")

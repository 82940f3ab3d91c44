"""When a run counts as attached."""

from __future__ import annotations

from typing import Any

import pytest

from midturn.cli.locked import is_attached
from support.cli import CommandLine, asks, calls


@pytest.mark.parametrize(("variable", "value"), [("CI", "true"), ("MIDTURN_NON_INTERACTIVE", "1")])
def test_environment_variables_detach_a_run(
    midturn: CommandLine, variable: str, value: str
) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks(exclusive=True)))
    one: Any = {variable: value}

    with midturn.on_a_terminal("query", "-m", model, "Ship it", **one) as terminal:
        assert terminal.wait_for_end() == 4

    assert "all keys" not in terminal.text


def test_disabled_variable_does_not_detach() -> None:
    assert not is_attached({"CI": "1"}, non_interactive=False)
    assert not is_attached({}, non_interactive=True)
    assert is_attached({"CI": "false"}, non_interactive=False) == is_attached(
        {}, non_interactive=False
    )


def test_flag_detaches_a_run(midturn: CommandLine) -> None:
    midturn.asker()

    with midturn.on_a_terminal(
        "query",
        "-m",
        midturn.script(calls("deploy", ask=asks(exclusive=True))),
        "--non-interactive",
        "hi",
    ) as terminal:
        assert terminal.wait_for_end() == 4


def test_piped_stdin_and_stdout_do_not_detach_and_never_answer(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.accept_keys_at_once()
    midturn.script(calls("deploy", ask=asks()))
    pipe = (
        f'printf "y\\nn\\n" | midturn query -m scripted:{midturn.root}/play.json | cat > out.txt;'
        ' echo "ended $?"'
    )
    script = midturn.root / "pipe.sh"
    script.write_text(pipe.replace("midturn query", "python -m midturn query"))

    with midturn.on_a_terminal_run("/bin/sh", str(script)) as terminal:
        terminal.wait_for("Deploy to staging?")
        terminal.wait_at(": ")
        terminal.send("y\r")
        terminal.wait_for("ended 0")

    assert (midturn.root / "out.txt").read_text() == "Done.\n"
    assert (
        next(event["content"] for event in midturn.events() if event["type"] == "chat_request")
        == "y\nn\n"
    )
    assert (
        next(event["answer"] for event in midturn.events() if event["type"] == "inquiry_response")
        is True
    )


def test_background_job_is_detached_and_not_stopped(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.script(calls("deploy", ask=asks(exclusive=True)))
    script = midturn.root / "job.sh"
    script.write_text(
        f"set -m\npython -m midturn query -m scripted:{midturn.root}/play.json hi &\nwait $!\necho"
        ' "ended $?"\n'
    )

    with midturn.on_a_terminal_run("/bin/sh", str(script)) as terminal:
        terminal.wait_for("ended 4")

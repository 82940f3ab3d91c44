"""Keys typed during a turn are not mixed into its output, and the terminal modes are restored
afterwards.
"""

from __future__ import annotations

import signal
import termios

import pytest

from support.cli import CommandLine, asks, calls


def echoes(settings: list[int]) -> bool:
    return bool(settings[3] & termios.ECHO)


@pytest.mark.parametrize("plain", [True, False])
def test_keys_typed_during_a_model_answer_are_not_echoed(
    midturn: CommandLine, *, plain: bool
) -> None:
    model = midturn.script({"text": "One. " * 3, "chunk": 5, "delay_ms": 700})

    with midturn.on_a_terminal("query", "-m", model, "Speak", plain=plain) as session:
        session.wait_until(lambda: not echoes(session.read_settings()), "silence")
        session.send("yyy")
        assert session.wait_for_end() == 0
        assert session.read_settings() == session.settings

    assert "One. One. One." in session.text
    assert "y" not in session.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_during_a_turn_restores_the_terminal(
    midturn: CommandLine, number: signal.Signals
) -> None:
    model = midturn.script({"text": "word " * 200, "chunk": 5, "delay_ms": 60_000})

    with midturn.on_a_terminal("query", "-m", model, "Speak") as session:
        session.wait_for("word word")
        session.wait_until(lambda: not echoes(session.read_settings()), "silence")
        session.child.kill(number)
        assert session.wait_for_end() in (130, 143)
        assert session.read_settings() == session.settings

    assert "^C" not in session.text


def test_prompt_during_a_turn_echoes_keys(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.accept_keys_at_once()
    text = asks("name", "Which name?", answer_type={"type": "text"})

    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", ask=text)), "Go"
    ) as session:
        session.wait_for("Which name?")
        session.wait_at("> ")
        session.send("Ada\r")
        assert session.wait_for_end() == 0
        assert session.read_settings() == session.settings

    assert "> Ada" in session.text

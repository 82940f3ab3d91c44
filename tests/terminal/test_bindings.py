"""prompt_toolkit's key bindings are made once, and its functions are restored afterwards."""

from __future__ import annotations

from typing import Any

from prompt_toolkit.application import application

from midturn.terminal.live import bindings_made_once

MAKER: Any = application


def test_bindings_are_made_once_and_prompt_toolkit_is_restored() -> None:
    before = MAKER.load_key_bindings

    with bindings_made_once():
        made = MAKER.load_key_bindings()
    with bindings_made_once():
        assert MAKER.load_key_bindings() is made

    assert MAKER.load_key_bindings is before
    assert MAKER.load_key_bindings() is not made

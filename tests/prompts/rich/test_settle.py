"""Keys pressed before the prompt accepts input."""

from __future__ import annotations

from midturn.terminal.prompts.rich.prompt import Debounce


def test_keys_count_after_a_pause() -> None:
    settle = Debounce(0.3, now=10)

    assert settle.accepts(10.3)


def test_a_key_before_the_pause_restarts_it() -> None:
    settle = Debounce(0.3, now=10)

    assert not settle.accepts(10.2)
    assert not settle.accepts(10.45)
    assert settle.accepts(10.8)


def test_keys_count_at_any_speed_after_the_pause() -> None:
    settle = Debounce(0.3, now=10)
    settle.accepts(11)

    assert settle.accepts(11.001)


def test_without_a_pause_every_key_counts() -> None:
    assert Debounce(0, now=10).accepts(10)

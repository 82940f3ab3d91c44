"""Keys that come too soon."""

from __future__ import annotations

from midturn.terminal.prompts.rich.prompt import Settle


def test_keys_count_after_a_pause() -> None:
    settle = Settle(0.3, now=10)

    assert settle.hears(10.3)


def test_a_key_before_the_pause_starts_it_anew() -> None:
    settle = Settle(0.3, now=10)

    assert not settle.hears(10.2)
    assert not settle.hears(10.45)
    assert settle.hears(10.8)


def test_once_they_count_they_count_however_fast_they_come() -> None:
    settle = Settle(0.3, now=10)
    settle.hears(11)

    assert settle.hears(11.001)


def test_without_a_pause_every_key_counts() -> None:
    assert Settle(0, now=10).hears(10)

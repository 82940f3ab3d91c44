"""The definition of a story."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from support.stories.outcome import Outcome
from support.stories.scene import Pair, Scene


def _always() -> str:
    return ""


class Story(Struct, frozen=True, kw_only=True):
    """A scene, the actions played in it, and the expected outcome.

    `impossible` returns why this machine cannot play it, or an empty string.
    """

    name: str
    scene: Scene
    play: Callable[[Pair], None]
    outcome: Outcome
    impossible: Callable[[], str] = _always

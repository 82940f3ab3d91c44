"""What a story is."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from support.stories.outcome import Outcome
from support.stories.scene import Pair, Scene


def _always() -> str:
    return ""


class Story(Struct, frozen=True, kw_only=True):
    """A scene, what is played in it, and what has to become of it; `impossible` says why this machine cannot play it."""

    name: str
    scene: Scene
    play: Callable[[Pair], None]
    outcome: Outcome
    impossible: Callable[[], str] = _always

"""The screens compared with the design. Each difference needs a reason."""

from __future__ import annotations

import difflib

import pytest

from support.design_scenes import (
    DESIGN,
    ELSEWHERE,
    IN_WORDS,
    KEYS,
    LINES,
    PLAIN_REASONS,
    RICH_REASONS,
    TALL,
    Scene,
    plain_rows,
    rich_rows,
    scenes,
)
from support.golden import assert_golden

pytestmark = pytest.mark.skipif(
    not DESIGN.is_dir(), reason="the design's screens are not beside this checkout"
)


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("mode", ["rich", "plain"])
def test_every_difference_from_the_design_has_a_reason(mode: str, columns: int) -> None:
    """The differences are stored by row: `-` is the design, `+` is the implementation."""
    reasons = RICH_REASONS if mode == "rich" else PLAIN_REASONS
    noted: list[str] = []
    for scene in scenes(mode, columns):
        if scene.name in ELSEWHERE:
            noted.append(f"{scene.title}\n  {ELSEWHERE[scene.name]}\n")
        elif rows := different(scene, mode, columns):
            reason = f"{reasons[scene.name]}; {IN_WORDS}" if scene.name in reasons else IN_WORDS
            noted.append(f"{scene.title}\n  {reason}\n" + "".join(f"    {row}\n" for row in rows))

    assert_golden(f"design/{mode}_{columns}", "\n".join(noted))


@pytest.mark.parametrize(("mode", "drawn"), [("rich", KEYS), ("plain", LINES)])
def test_every_scene_of_the_design_is_tested(mode: str, drawn: dict[str, tuple[str, ...]]) -> None:
    assert {scene.title for scene in scenes(mode, 80) if scene.name not in ELSEWHERE} == set(drawn)


def different(scene: Scene, mode: str, columns: int) -> list[str]:
    """Return the rows in which a scene of the design and the implementation differ."""
    ours = (rich_rows if mode == "rich" else plain_rows)(scene.title, columns)
    ours = ours[-len(scene.rows) :] if len(scene.rows) >= TALL else ours
    return [row for row in difflib.ndiff(scene.rows, ours) if row[0] in "+-"]

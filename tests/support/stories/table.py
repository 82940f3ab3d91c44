"""The table of stories and doors: what is played, and what is not, with the reason. `python -m support.stories.table` plays all of it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import TypeAlias

from msgspec import Struct

from support.lasting import UNTIL_THE_END
from support.stories.doors import ANSWERERS, ASKERS, Door
from support.stories.outcome import Outcome
from support.stories.stories import STORIES
from support.stories.story import Story

TABLES: Mapping[str, Sequence[type[Door]]] = {"Who answers": ANSWERERS, "Who asks": ASKERS}
Key: TypeAlias = tuple[str, str]
LETTERS = (*ascii_lowercase, *ascii_uppercase)


class Cell(Struct, frozen=True):
    """A story at a door."""

    door: type[Door]
    story: Story

    @property
    def key(self) -> Key:
        """The names of both."""
        return self.door.name, self.story.name

    @property
    def reason(self) -> str | None:
        """Why the door does not have the story; None where it has."""
        return self.door.lacks.get(self.story.name)

    @property
    def expected(self) -> Outcome:
        """The outcome of the story, in the words of who asks."""
        return self.door.expected(self.story)

    @property
    def impossible(self) -> str:
        """Why this machine cannot play it; empty where it can."""
        return self.door.missing() or self.story.impossible()

    def play(self, directory: Path) -> Outcome:
        """Play it; return what has become of it."""
        with ExitStack() as closing:
            pair = self.door(closing).meet(self.story.scene, directory)
            self.story.play(pair)
            return pair.asker.outcome()


def cells() -> Iterator[Cell]:
    """Yield every cell of every table."""
    for doors in TABLES.values():
        yield from (Cell(door, story) for door in doors for story in STORIES)


def played() -> list[Cell]:
    """Return the cells that are played."""
    return [cell for cell in cells() if cell.reason is None]


def written(different: Mapping[Key, str] | None = None) -> str:
    """Write the tables in Markdown: a row a door, a column a story; `different` are cells whose outcome was another one."""
    found = different or {}
    names = [f"{number}. {story.name}" for number, story in enumerate(STORIES, 1)]
    parts = ["The stories: " + "; ".join(names) + "."]
    for title, doors in TABLES.items():
        head = f"| {title} | " + " | ".join(map(str, range(1, len(STORIES) + 1))) + " |\n|" + " --- |" * (len(STORIES) + 1)
        reasons = _reasons(doors)
        rows = [f"| {door.name} | " + " | ".join(_mark(Cell(door, story), reasons, found) for story in STORIES) + " |" for door in doors]
        notes = [f"- {letter}: {reason}" for reason, letter in reasons.items()]
        parts += ["\n".join([head, *rows]), *(["\n".join(notes)] if notes else [])]
    every = list(cells())
    absent = len(every) - len(played())
    return "\n\n".join([*parts, f"{len(every)} cells: {len(played())} played, {absent} that a door does not have."])


def _reasons(doors: Sequence[type[Door]]) -> dict[str, str]:
    """Return a letter for each reason, in the order in which they come."""
    reasons = dict.fromkeys(door.lacks[story.name] for door in doors for story in STORIES if story.name in door.lacks)
    return {reason: LETTERS[place] for place, reason in enumerate(reasons)}


def _mark(cell: Cell, reasons: Mapping[str, str], different: Mapping[Key, str]) -> str:
    if cell.key in different:
        return "≠"
    return "✓" if cell.reason is None else reasons[cell.reason]


def main() -> int:
    """Play everything; print the table, and each difference."""
    different: dict[Key, str] = {}
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    for cell in played():
        if chosen not in f"{cell.door.name}, {cell.story.name}":
            continue
        if reason := cell.impossible:
            print(f"{cell.door.name}, {cell.story.name}: not played, {reason}")  # noqa: T201
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                found = cell.play(Path(directory))
            except Exception as error:  # noqa: BLE001  whatever it is, it is a difference
                different[cell.key] = repr(error)
            else:
                if found != cell.expected:
                    different[cell.key] = f"{found}\n  in place of {cell.expected}"
    UNTIL_THE_END.close()
    print(written(different))  # noqa: T201
    for (door, story), difference in different.items():
        print(f"{door}, {story}:\n  {difference}")  # noqa: T201
    print(f"{len(different)} differences.")  # noqa: T201
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

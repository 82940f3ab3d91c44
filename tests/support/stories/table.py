"""The table of stories and interfaces. `python -m support.stories.table` runs all cells."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import TypeAlias

from msgspec import Struct

from support.shared_resources import SESSION_RESOURCES
from support.stories.interfaces import ANSWERERS, ASKERS, Interface
from support.stories.outcome import Outcome
from support.stories.stories import STORIES
from support.stories.story import Story

TABLES: Mapping[str, Sequence[type[Interface]]] = {"Who answers": ANSWERERS, "Who asks": ASKERS}
Key: TypeAlias = tuple[str, str]
LETTERS = (*ascii_lowercase, *ascii_uppercase)


class Cell(Struct, frozen=True):
    """A story at an interface."""

    interface: type[Interface]
    story: Story

    @property
    def key(self) -> Key:
        return self.interface.name, self.story.name

    @property
    def reason(self) -> str | None:
        """Why the story does not apply to the interface. None if it does."""
        return self.interface.lacks.get(self.story.name)

    @property
    def expected(self) -> Outcome:
        """The expected outcome, with the text that this asker receives."""
        return self.interface.expected(self.story)

    @property
    def impossible(self) -> str:
        """Why this machine cannot run the cell. Empty if it can."""
        return self.interface.missing() or self.story.impossible()

    def play(self, directory: Path) -> Outcome:
        """Run the story at the interface and return its outcome."""
        with ExitStack() as closing:
            pair = self.interface(closing).set_up(self.story.scene, directory)
            self.story.play(pair)
            return pair.asker.outcome()


def cells() -> Iterator[Cell]:
    """Yield every cell of every table."""
    for interfaces in TABLES.values():
        yield from (Cell(interface, story) for interface in interfaces for story in STORIES)


def played() -> list[Cell]:
    return [cell for cell in cells() if cell.reason is None]


def written(different: Mapping[Key, str] | None = None) -> str:
    """Return the tables in Markdown, with a row per interface and a column per story. `different`
    contains the cells with an unexpected outcome.
    """
    found = different or {}
    names = [f"{number}. {story.name}" for number, story in enumerate(STORIES, 1)]
    parts = ["The stories:", "\n".join(names)]
    for title, interfaces in TABLES.items():
        head = (
            f"| {title} | "
            + " | ".join(map(str, range(1, len(STORIES) + 1)))
            + " |\n|"
            + " --- |" * (len(STORIES) + 1)
        )
        reasons = _reasons(interfaces)
        rows = [
            f"| {interface.name} | "
            + " | ".join(_mark(Cell(interface, story), reasons, found) for story in STORIES)
            + " |"
            for interface in interfaces
        ]
        notes = [f"- {letter}: {reason}" for reason, letter in reasons.items()]
        parts += ["\n".join([head, *rows]), *(["\n".join(notes)] if notes else [])]
    every = list(cells())
    absent = len(every) - len(played())
    return "\n\n".join(
        [*parts, f"{len(every)} cells: {len(played())} tested, {absent} not applicable."]
    )


def _reasons(interfaces: Sequence[type[Interface]]) -> dict[str, str]:
    """Return a letter for each reason, in order of appearance."""
    reasons = dict.fromkeys(
        interface.lacks[story.name]
        for interface in interfaces
        for story in STORIES
        if story.name in interface.lacks
    )
    return {reason: LETTERS[place] for place, reason in enumerate(reasons)}


def _mark(cell: Cell, reasons: Mapping[str, str], different: Mapping[Key, str]) -> str:
    if cell.key in different:
        return "≠"
    return "✓" if cell.reason is None else reasons[cell.reason]


def main() -> int:
    """Run all cells, then print the tables and each difference."""
    different: dict[Key, str] = {}
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    for cell in played():
        if chosen not in f"{cell.interface.name}, {cell.story.name}":
            continue
        if reason := cell.impossible:
            print(f"{cell.interface.name}, {cell.story.name}: not run, {reason}")  # noqa: T201
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                found = cell.play(Path(directory))
            except Exception as error:  # noqa: BLE001  whatever it is, it is a difference
                different[cell.key] = repr(error)
            else:
                if found != cell.expected:
                    different[cell.key] = f"{found}\n  instead of {cell.expected}"
    SESSION_RESOURCES.close()
    print(written(different))  # noqa: T201
    for (interface, story), difference in different.items():
        print(f"{interface}, {story}:\n  {difference}")  # noqa: T201
    print(f"{len(different)} differences.")  # noqa: T201
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

"""The table of rules and interfaces. `python -m support.decisions.table` runs every cell."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from string import ascii_lowercase

from msgspec import Struct

from support.decisions.interfaces import INTERFACES, Interface
from support.decisions.rules import RULES, Rule
from support.shared_resources import SESSION_RESOURCES


class Cell(Struct, frozen=True):
    """A rule at an interface."""

    interface: type[Interface]
    rule: Rule

    @property
    def key(self) -> tuple[str, str]:
        return self.interface.name, self.rule.name

    @property
    def reason(self) -> str | None:
        """Why the rule does not apply to the interface. None if it does."""
        return self.interface.lacks.get(self.rule.name)

    def play(self, directory: Path) -> None:
        """Run the cell.

        Raises:
            AssertionError: The interface does not follow the rule.
        """
        with ExitStack() as closing:
            self.rule.play(self.interface(closing, directory))


def cells() -> Iterator[Cell]:
    """Yield every cell, row by row."""
    return (Cell(interface, rule) for interface in INTERFACES for rule in RULES)


def written(broken: Mapping[tuple[str, str], str] | None = None) -> str:
    """Return the table in Markdown, with a row per interface and a column per rule.

    Args:
        broken: Error by cell, for interfaces that do not follow a rule.
    """
    found = broken or {}
    reasons = list(dict.fromkeys(cell.reason for cell in cells() if cell.reason))
    letters = dict(zip(reasons, ascii_lowercase, strict=False))
    head = (
        f"| interface | {' | '.join(rule.name for rule in RULES)} |\n|{' --- |' * (len(RULES) + 1)}"
    )
    rows: list[str] = []
    for interface in INTERFACES:
        marks = [_mark(Cell(interface, rule), letters, found) for rule in RULES]
        rows.append(f"| {interface.name} | {' | '.join(marks)} |")
    every = list(cells())
    played = sum(cell.reason is None for cell in every)
    return "\n\n".join(
        [
            "\n".join(f"- **{rule.name}**: {rule.says}" for rule in RULES),
            "\n".join([head, *rows]),
            "\n".join(f"- {letter}: {reason}" for reason, letter in letters.items()),
            f"{len(every)} cells: {played} tested, {len(every) - played} not applicable.",
        ]
    )


def _mark(cell: Cell, letters: Mapping[str, str], broken: Mapping[tuple[str, str], str]) -> str:
    if cell.key in broken:
        return "✗"
    return "✓" if cell.reason is None else letters[cell.reason]


def main() -> int:
    """Run all cells, then print the table and each error."""
    broken: dict[tuple[str, str], str] = {}
    for cell in (cell for cell in cells() if cell.reason is None):
        if reason := cell.interface.missing():
            print(f"{cell.interface.name}, {cell.rule.name}: not run, {reason}")  # noqa: T201
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                cell.play(Path(directory))
            except Exception as error:  # noqa: BLE001  any error means that the rule is not followed
                broken[cell.key] = repr(error)
    SESSION_RESOURCES.close()
    print(written(broken))  # noqa: T201
    for (interface, rule), error in broken.items():
        print(f"{interface}, {rule}: {error}")  # noqa: T201
    print(f"{len(broken)} broken.")  # noqa: T201
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

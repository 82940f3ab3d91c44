"""The queue of everything that a person has to decide: first come, first served."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from midturn.core.events import AnsweredBy
from midturn.core.prompt import Prompt
from midturn.core.reply import Reply


class Askable(Protocol):
    """Something that waits for somebody's decision: an inquiry, a permission, a delivery, a review."""

    @property
    def id(self) -> str:
        """The inquiry's or approval's id."""
        ...

    def settle_without_a_person(self) -> bool:
        """Look again when the prompt's turn comes: an equal question may have been remembered meanwhile. True if it is settled."""
        ...

    def prompt(self) -> Prompt:
        """Return what to show."""
        ...

    def take(self, reply: Reply, who: AnsweredBy) -> str | None:
        """Act on a reply; return why it does not fit, where it does not (nothing has happened then)."""
        ...

    def fail(self, error: str) -> None:
        """Close, because the prompter failed."""
        ...

    def nobody_there(self) -> None:
        """Decide again as if nobody was attached."""
        ...


class Desk:
    """What waits in line, what is open in front of a person, and what waits for a person who comes by later."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._line: deque[Askable] = deque()
        self._open: dict[str, Askable] = {}
        self._parked: dict[str, Askable] = {}
        self._misfits: dict[str, int] = {}
        self._returned: set[str] = set()

    def queue(self, askable: Askable) -> None:
        """Put a decision in line for a prompt."""
        self._line.append(askable)

    def park(self, askable: Askable) -> None:
        """Leave a decision for a person who comes by later."""
        self._parked[askable.id] = askable

    def remove(self, id: str) -> bool:
        """Take a decision off the desk; True if its prompt is on a screen."""
        self._parked.pop(id, None)
        self._line = deque(a for a in self._line if a.id != id)
        self._misfits.pop(id, None)
        on_screen = id in self._open and id not in self._returned
        self._open.pop(id, None)
        self._returned.discard(id)
        return on_screen

    def returned(self, id: str) -> None:
        """Note that the prompter is done with this prompt: there is nothing to take off a screen."""
        self._returned.add(id)

    def show_again(self, id: str) -> None:
        """Note that the prompt is shown once more."""
        self._returned.discard(id)

    def find(self, id: str) -> Askable | None:
        """Return the decision with this id, wherever on the desk it lies."""
        return self._open.get(id) or self._parked.get(id) or next((a for a in self._line if a.id == id), None)

    def is_parked(self, id: str) -> bool:
        """Whether this decision waits for a person who comes by later."""
        return id in self._parked

    def misfit(self, id: str) -> int:
        """Count a reply that did not fit, and return how many there were."""
        self._misfits[id] = count = self._misfits.get(id, 0) + 1
        return count

    def open_next(self, show: Callable[[Askable], None]) -> bool:
        """Open the prompts that there is room for; True as soon as one was settled without a person (the caller goes on from there)."""
        while self._line and len(self._open) < self._at_once:
            askable = self._line.popleft()
            if askable.settle_without_a_person():
                return True
            self._open[askable.id] = askable
            show(askable)
        return False

    @property
    def has_prompts(self) -> bool:
        """Whether a prompt is open or about to be."""
        return bool(self._open or self._line)

    @property
    def has_parked(self) -> bool:
        """Whether anything waits for a person who comes by later."""
        return bool(self._parked)

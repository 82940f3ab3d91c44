"""A question and its answer: how it is written, checked, kept, and answered.

What the stream keeps of a question is always there; what authors one is loaded by the first who does.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from midturn.core.question.persisted_question import PersistedQuestion

if TYPE_CHECKING:
    from midturn.core.question.fields import Persistence, When
    from midturn.core.question.question import Question

__all__ = ["PersistedQuestion", "Persistence", "Question", "When"]

_HOMES = {"Question": ".question", "Persistence": ".fields", "When": ".fields"}


def __getattr__(name: str) -> object:
    """Load a name from where it is."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value

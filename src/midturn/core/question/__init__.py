"""A question and its answer: how it is written, checked, kept, and answered."""

from midturn.core.question.fields import Persistence, When
from midturn.core.question.question import PersistedQuestion, Question

__all__ = ["PersistedQuestion", "Persistence", "Question", "When"]

"""A model answers a tool's question on the side: which model, what it is asked, and whether its answer fits."""

from midturn.assistant.chosen import ChosenAssistant, chosen_assistant
from midturn.assistant.responder import Consultation, consult

__all__ = ["ChosenAssistant", "Consultation", "chosen_assistant", "consult"]

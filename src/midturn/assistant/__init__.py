"""A model answers a tool's question on the side: which model, what it is asked, and whether its answer fits."""

from midturn.assistant.responder import Consultation, consult
from midturn.assistant.settings import AssistantSettings, assistant_settings

__all__ = ["AssistantSettings", "Consultation", "assistant_settings", "consult"]

"""The only package that names concrete classes: from what a program or a configuration says to a session."""

from midturn.compose.agent import AgentParts, compose_agent
from midturn.compose.models import model_named
from midturn.compose.run_parts import RunParts

__all__ = ["AgentParts", "RunParts", "compose_agent", "model_named"]

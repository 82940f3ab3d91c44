"""A model object of pydantic-ai, made by the program itself, behind our protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from midturn.core.exchange import Family

if TYPE_CHECKING:
    from midturn.models.reached_model import ReachedModel

_FAMILIES: Final[tuple[tuple[str, Family], ...]] = (("anthropic", "anthropic"), ("openai", "openai"), ("google", "google"))


class LibraryModel(Protocol):
    """Any model object of pydantic-ai (`pydantic_ai.models.Model`), with whatever provider and settings it was made."""

    @property
    def model_name(self) -> str:
        """The provider's name of the model."""
        ...

    @property
    def system(self) -> str:
        """The provider."""
        ...


def is_library_model(given: object) -> bool:
    """Say whether something is a model of pydantic-ai, without loading that."""
    return any(base.__module__.startswith("pydantic_ai.models") and base.__name__ == "Model" for base in type(given).__mro__)


def reached(given: LibraryModel) -> ReachedModel:
    """Return the model behind our protocol: recorded as `<provider>/<model>`."""
    from midturn.models.profiles import ModelSpec  # who brings a model of another kind needs none of it
    from midturn.models.reached_model import ReachedModel

    system, name = given.system, given.model_name
    family: Family = "openai-compatible"
    for start, found in _FAMILIES:
        if system.startswith(start):
            family = found
    if family == "openai" and "Responses" not in type(given).__name__:
        family = "openai-compatible"  # the other of OpenAI's two wires
    return ReachedModel(ModelSpec(id=f"{system}/{name}", provider=system, model=name, family=family), given=given)

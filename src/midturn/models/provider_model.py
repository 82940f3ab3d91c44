"""A provider's model with settings of its own, for programs: nothing comes from a configuration."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from midturn.exchange import DEFAULT_TIMEOUT, Family, ModelEvent, ModelRequest
from midturn.models.profiles import ModelSpec
from midturn.models.reached_model import ReachedModel
from midturn.models.registry import Lookup, model_named
from midturn.models.wrapper import RetryPolicy
from midturn.question.json_value import Json, JsonObject

if TYPE_CHECKING:
    from midturn.models.reached_model import ReachedModel


_KEY = "api_key="


class ProviderModel:
    """A model of Anthropic, OpenAI, Google, or of any OpenAI-compatible server, with its own address, key and parameters.

    ```python
    local = ProviderModel("ollama/qwen3", base_url="http://127.0.0.1:11434/v1", parameters={"temperature": 0})
    agent = Agent(local, tools=[deploy])
    ```
    """

    def __init__(  # noqa: PLR0913  a public signature
        self,
        id: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        parameters: JsonObject | None = None,
        headers: Mapping[str, str] | None = None,
        max_retries: int = RetryPolicy().max_retries,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Say how a model is reached; nothing is sent yet.

        Args:
            id: `<provider>/<model>`: `anthropic/…`, `openai/…`, `google/…`, or any other name for the server at `base_url`, which is then
                spoken to as OpenAI-compatible servers are (Ollama, llama.cpp, vLLM, LM Studio).
            base_url: The address, where it is not the provider's own.
            api_key: The key; without it, that of the provider's usual environment variable, or none for a server of your own.
            parameters: What goes with every request, such as `temperature`, `max_tokens`, `seed`, `thinking`, or a provider's own
                `openai_…`, `anthropic_…`, `google_…`.
            headers: What is sent with every request beside our own headers.
            max_retries: How often a request is made again when the model is down for a moment.
            timeout: Seconds without a byte from the model.

        Raises:
            ConfigError: The id or the settings cannot be used, or the key or the library is missing; the message says what to do.
        """
        provider = id.partition("/")[0]
        settings: dict[str, Json] = {"base_url": base_url} if base_url else {}
        environment: Mapping[str, str] = os.environ
        if api_key is not None:
            settings["api_key_env"] = _KEY
            environment = {**os.environ, _KEY: api_key}
        lookup = Lookup(providers={provider: settings} if settings else {}, environment=environment)
        self._model: ReachedModel = model_named(id, lookup)
        extra: dict[str, Json] = {"extra_headers": dict(headers)} if headers else {}
        self._parameters: JsonObject = {**(parameters or {}), **extra}
        self._timeout = timeout
        self.max_retries = max_retries
        """Retries of a request when the model is briefly down."""

    @property
    def name(self) -> str:
        """The model's id."""
        return self._model.name

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask the model (see `Model.stream`); what the request says itself counts before the settings.

        Args:
            request: What goes to the model.
        """
        parameters = {**self._parameters, **request.parameters}
        return self._model.stream(replace(request, parameters=parameters, timeout=self._timeout))

    async def aclose(self) -> None:
        """Close the connection of this event loop; a program without one has none to close."""
        await self._model.aclose()

    def __repr__(self) -> str:
        return f"ProviderModel({self.name!r})"


# ----------------------------------------------------------------------------------------------------------------------
# A model object of pydantic-ai, made by the program itself, behind our protocol


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
    system, name = given.system, given.model_name
    family: Family = "openai-compatible"
    for start, found in _FAMILIES:
        if system.startswith(start):
            family = found
    if family == "openai" and "Responses" not in type(given).__name__:
        family = "openai-compatible"  # the other of OpenAI's two wires
    return ReachedModel(ModelSpec(id=f"{system}/{name}", provider=system, model=name, family=family), given=given)

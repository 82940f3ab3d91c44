"""A provider's model that is configured in code. It needs no configuration files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from midturn.exchange import DEFAULT_TIMEOUT, Family, ModelEvent, ModelRequest
from midturn.models.profiles import ModelSpec
from midturn.models.reached_model import LazyProviderModel
from midturn.models.registry import Lookup, model_named
from midturn.models.wrapper import RetryPolicy
from midturn.question.json_value import Json, JsonObject

if TYPE_CHECKING:
    from midturn.models.reached_model import LazyProviderModel


_KEY_VARIABLE = "api_key="


class ProviderModel:
    """A model of Anthropic, OpenAI, Google or an OpenAI-compatible server, with its own address,
    key and parameters.

    ```python
    local = ProviderModel("ollama/qwen3", base_url="http://127.0.0.1:11434/v1",
    parameters={"temperature": 0})
    agent = Agent(local, tools=[deploy])
    ```
    """

    def __init__(
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
        """Configure the model. Nothing is sent until the first request.

        Args:
            id: `<provider>/<model>`: `anthropic/…`, `openai/…`, `google/…`, or any other name for
                the OpenAI-compatible server at `base_url` (Ollama, llama.cpp, vLLM, LM Studio).
            base_url: Address of the server. Default: the provider's own address.
            api_key: The API key. Default: the provider's usual environment variable, or no key
                for other servers.
            parameters: Parameters for every request, such as `temperature`, `max_tokens`, `seed`,
                `thinking`, or provider-specific ones (`openai_…`, `anthropic_…`, `google_…`).
            headers: Additional HTTP headers for every request.
            max_retries: Maximum number of retries after a temporary failure.
            timeout: Maximum number of seconds without data from the model.

        Raises:
            ConfigError: The id or a setting is invalid, or the key or the library is missing. The
                message contains advice.
        """
        provider = id.partition("/")[0]
        settings: dict[str, Json] = {"base_url": base_url} if base_url else {}
        environment: Mapping[str, str] = os.environ
        if api_key is not None:
            settings["api_key_env"] = _KEY_VARIABLE
            environment = {**os.environ, _KEY_VARIABLE: api_key}
        lookup = Lookup(providers={provider: settings} if settings else {}, environment=environment)
        self._model: LazyProviderModel = model_named(id, lookup)
        extra: dict[str, Json] = {"extra_headers": dict(headers)} if headers else {}
        self._parameters: JsonObject = {**(parameters or {}), **extra}
        self._timeout = timeout
        self.max_retries = max_retries
        """Maximum number of retries after a temporary failure."""

    @property
    def name(self) -> str:
        """The model's id."""
        return self._model.name

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Send a request to the model (see `Model.stream`). Settings in the request take precedence
        over the model's settings.

        Args:
            request: The request.
        """
        parameters = {**self._parameters, **request.parameters}
        return self._model.stream(replace(request, parameters=parameters, timeout=self._timeout))

    async def aclose(self) -> None:
        """Close the connection that belongs to the current event loop, if there is one."""
        await self._model.aclose()

    def __repr__(self) -> str:
        return f"ProviderModel({self.name!r})"


# --------------------------------------------------------------------------------------------------
# Adapt pydantic-ai models that the program created


_FAMILIES: Final[tuple[tuple[str, Family], ...]] = (
    ("anthropic", "anthropic"),
    ("openai", "openai"),
    ("google", "google"),
)


class LibraryModel(Protocol):
    """A pydantic-ai model object (`pydantic_ai.models.Model`) with any provider and settings."""

    @property
    def model_name(self) -> str:
        """The provider's name for the model."""
        ...

    @property
    def system(self) -> str:
        """The provider."""
        ...


def is_library_model(given: object) -> bool:
    """Return whether an object is a pydantic-ai model, without importing pydantic-ai."""
    return any(
        base.__module__.startswith("pydantic_ai.models") and base.__name__ == "Model"
        for base in type(given).__mro__
    )


def wrap_library_model(given: LibraryModel) -> LazyProviderModel:
    """Wrap a pydantic-ai model. Its id in the log is `<provider>/<model>`."""
    system, name = given.system, given.model_name
    family: Family = "openai-compatible"
    for prefix, candidate in _FAMILIES:
        if system.startswith(prefix):
            family = candidate
    if family == "openai" and "Responses" not in type(given).__name__:
        family = "openai-compatible"  # OpenAI's chat completions API
    return LazyProviderModel(
        ModelSpec(id=f"{system}/{name}", provider=system, model=name, family=family), given=given
    )

"""Find the models that can be used now: providers with an API key, and running local servers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from msgspec import Struct

from midturn.errors import ConfigError
from midturn.models.profiles import KNOWN_PROFILES, ModelSpec
from midturn.models.registry import KEYS, Lookup, is_installed, library_command, spec_named

LOCAL_SERVERS: Final = {
    "ollama": "http://127.0.0.1:11434/v1",
    "llama-cpp": "http://127.0.0.1:8080/v1",
    "lm-studio": "http://127.0.0.1:1234/v1",
    "vllm": "http://127.0.0.1:8000/v1",
}
"""Default addresses of common model servers on this machine."""

_TIMEOUT_SECONDS: Final = 2.0


class _NoRedirects(HTTPRedirectHandler):
    """Does not follow redirects, so that an API key is never sent to another server."""

    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        """Return None, so that the redirect is not followed."""


class AvailableProvider(Struct, frozen=True, kw_only=True):
    """A provider with its model ids, or with the reason why it cannot be used.

    `configured` is false for a local server that was found but is not configured.
    """

    provider: str
    models: tuple[str, ...] = ()
    missing: str | None = None
    base_url: str | None = None
    configured: bool = True


def available_providers(lookup: Lookup) -> list[AvailableProvider]:
    """Check every built-in or configured provider and the local servers. All servers are queried
    at the same time.
    """
    specs = [
        spec
        for name in {**dict.fromkeys(KEYS), **lookup.providers}
        if (spec := _spec(name, lookup))
    ]
    configured = {spec.base_url for spec in specs}
    local = [
        (name, url)
        for name, url in LOCAL_SERVERS.items()
        if name not in lookup.providers and url not in configured
    ]
    with ThreadPoolExecutor(max_workers=8) as pool:
        known = pool.map(_known, specs)
        found = pool.map(_local, [name for name, _ in local], [url for _, url in local])
        return [*known, *(server for server in found if server)]


def _spec(provider: str, lookup: Lookup) -> ModelSpec | None:
    try:
        return spec_named(f"{provider}/-", lookup)
    except ConfigError:  # reported with its location when the configuration is read
        return None


def _known(spec: ModelSpec) -> AvailableProvider:
    if spec.family == "openai-compatible":
        return _server(spec)
    missing = (
        f"set {spec.key_origin}"
        if spec.key is None
        else None
        if is_installed(spec.family)
        else library_command(spec.family)
    )
    ids = tuple(name for name in KNOWN_PROFILES if name.startswith(f"{spec.provider}/"))
    return AvailableProvider(provider=spec.provider, models=() if missing else ids, missing=missing)


def _server(spec: ModelSpec) -> AvailableProvider:
    try:
        names = models_of(spec.base_url or "", spec.key.reveal() if spec.key else None)
    except (OSError, ValueError) as error:
        return AvailableProvider(
            provider=spec.provider,
            missing=f"{spec.base_url} does not answer ({error})",
            base_url=spec.base_url,
        )
    return AvailableProvider(
        provider=spec.provider,
        models=tuple(f"{spec.provider}/{name}" for name in names),
        base_url=spec.base_url,
    )


def _local(name: str, base_url: str) -> AvailableProvider | None:
    try:
        names = models_of(base_url, None)
    except (OSError, ValueError):  # the port is closed, or belongs to another program
        return None
    return AvailableProvider(
        provider=name,
        models=tuple(f"{name}/{model}" for model in names),
        base_url=base_url,
        configured=False,
    )


def models_of(base_url: str, key: str | None) -> Sequence[str]:
    """Return the names of the models on an OpenAI-compatible server.

    Raises:
        OSError: The server refuses the request, or does not respond within two seconds.
        ValueError: The response is not a list of models.
    """
    if urlsplit(base_url).scheme not in {"http", "https"}:
        raise ValueError(f"{base_url} is not an http or https address")
    request = Request(  # noqa: S310 (checked above)
        f"{base_url.rstrip('/')}/models", headers={"authorization": f"Bearer {key}"} if key else {}
    )
    try:
        with build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_SECONDS) as response:
            listed = cast("dict[str, Any]", json.loads(response.read()))
            return [str(entry["id"]) for entry in listed["data"]]
    except URLError as error:
        raise OSError(str(error.reason)) from error
    except (KeyError, TypeError) as error:
        raise ValueError("the response is not a list of models") from error

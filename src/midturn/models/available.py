"""Models usable here and now: providers with a key, and servers that answer."""

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
"""Default addresses of the usual servers on this machine."""

_SECONDS: Final = 2.0


class _StayHere(HTTPRedirectHandler):
    """A key goes to the server that it is for, and to no other that this one names."""

    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        """Follow nowhere."""


class AtHand(Struct, frozen=True, kw_only=True):
    """One provider: the ids of its models, or what is missing. `configured` is false for a local server that was merely found."""

    provider: str
    models: tuple[str, ...] = ()
    missing: str | None = None
    base_url: str | None = None
    configured: bool = True


def providers_at_hand(lookup: Lookup) -> list[AtHand]:
    """Look at every provider that is built in or configured, and for local servers; the servers are asked all at once."""
    specs = [spec for name in {**dict.fromkeys(KEYS), **lookup.providers} if (spec := _spec(name, lookup))]
    configured = {spec.base_url for spec in specs}
    local = [(name, url) for name, url in LOCAL_SERVERS.items() if name not in lookup.providers and url not in configured]
    with ThreadPoolExecutor(max_workers=8) as pool:
        known = pool.map(_known, specs)
        found = pool.map(_local, [name for name, _ in local], [url for _, url in local])
        return [*known, *(server for server in found if server)]


def _spec(provider: str, lookup: Lookup) -> ModelSpec | None:
    try:
        return spec_named(f"{provider}/-", lookup)
    except ConfigError:  # said when the configuration is read, with its place
        return None


def _known(spec: ModelSpec) -> AtHand:
    if spec.family == "openai-compatible":
        return _server(spec)
    missing = f"set {spec.key_origin}" if spec.key is None else None if is_installed(spec.family) else library_command(spec.family)
    ids = tuple(known for known in KNOWN_PROFILES if known.startswith(f"{spec.provider}/"))
    return AtHand(provider=spec.provider, models=() if missing else ids, missing=missing)


def _server(spec: ModelSpec) -> AtHand:
    try:
        names = models_of(spec.base_url or "", spec.key.reveal() if spec.key else None)
    except (OSError, ValueError) as error:
        return AtHand(provider=spec.provider, missing=f"{spec.base_url} does not answer ({error})", base_url=spec.base_url)
    return AtHand(provider=spec.provider, models=tuple(f"{spec.provider}/{name}" for name in names), base_url=spec.base_url)


def _local(name: str, base_url: str) -> AtHand | None:
    try:
        names = models_of(base_url, None)
    except (OSError, ValueError):  # nothing listens there, or something else does
        return None
    return AtHand(provider=name, models=tuple(f"{name}/{model}" for model in names), base_url=base_url, configured=False)


def models_of(base_url: str, key: str | None) -> Sequence[str]:
    """Ask an OpenAI-compatible server for the names of its models.

    Raises:
        OSError: It does not answer within two seconds, or refuses.
        ValueError: It answers something else.
    """
    if urlsplit(base_url).scheme not in {"http", "https"}:
        raise ValueError(f"{base_url} is not an http address")
    request = Request(f"{base_url.rstrip('/')}/models", headers={"authorization": f"Bearer {key}"} if key else {})  # noqa: S310 (checked above)
    try:
        with build_opener(_StayHere).open(request, timeout=_SECONDS) as response:
            listed = cast("dict[str, Any]", json.loads(response.read()))
            return [str(entry["id"]) for entry in listed["data"]]
    except URLError as error:
        raise OSError(str(error.reason)) from error
    except (KeyError, TypeError) as error:
        raise ValueError("the answer is not a list of models") from error

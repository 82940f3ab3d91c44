"""The agent card, which describes this agent to other agents.

A card contains only the values that the application passes. The agent's instructions and the names
of its tools are not published.
"""

from __future__ import annotations

from typing import Any, Final, cast
from urllib.parse import urlsplit

from a2a.types.a2a_pb2 import AgentCard, AgentExtension, AgentInterface, AgentSkill
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError as ProtobufParseError

from midturn.errors import ConfigError
from midturn.integrations.a2a.questions import EXTENSION
from midturn.question.json_value import Json, JsonObject

RPC_PATHS: Final = ("/", "/rpc", "/rpc/")
"""Paths of JSON-RPC. Some clients send requests to the application's address, or add a slash."""
REST_PATH: Final = "/v1"
CARD_PATH: Final = AGENT_CARD_WELL_KNOWN_PATH
CARD_CACHE: Final = "public, max-age=300"
_DESCRIPTION: Final = (
    "Questions and answers as data, several at once. Without it, a task asks one question at a time"
    " as text."
)


def agent_card(given: AgentCard | JsonObject, *, has_push: bool = False) -> AgentCard:
    """Return the complete card of an agent.

    Args:
        given: The card, or a dictionary with the members of its JSON: `name`, `description`,
            `version`, `url`, `skills`, `provider` and so on. `url` is the address of the
            application.
        has_push: Whether clients can register webhooks.

    Raises:
        ConfigError: The card is not valid.
    """
    card, url = _read(given)
    if not card.name or not card.description:
        raise ConfigError("The card of an agent needs a `name` and a `description`.")
    if url and not card.supported_interfaces:
        card.supported_interfaces.extend(_interfaces(url))
    if not card.supported_interfaces:
        raise ConfigError("The card of an agent needs the `url` of the application.")
    card.version = card.version or "1"
    if not card.skills:  # the protocol requires at least one skill
        card.skills.append(
            AgentSkill(id="task", name=card.name, description=card.description, tags=["task"])
        )
    card.capabilities.streaming = True
    card.capabilities.push_notifications = has_push
    card.capabilities.extended_agent_card = False
    if all(extension.uri != EXTENSION for extension in card.capabilities.extensions):
        card.capabilities.extensions.append(
            AgentExtension(uri=EXTENSION, description=_DESCRIPTION, required=False)
        )
    if not card.default_input_modes:
        card.default_input_modes.extend(("text/plain", "application/json"))
    if not card.default_output_modes:
        card.default_output_modes.extend(("text/plain", "application/json"))
    return card


def token_card(name: str, description: str, url: str, *, has_push: bool = False) -> AgentCard:
    """Return the card of an agent whose clients send a token.

    Raises:
        ConfigError: The URL is not an HTTP address, or the name or the description is empty.
    """
    return agent_card(
        {
            "name": name,
            "description": description,
            "url": url,
            "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
            "securityRequirements": [{"schemes": {"token": {}}}],
        },
        has_push=has_push,
    )


def card_json(card: AgentCard) -> Json:
    """Return a card as JSON."""
    return cast("Json", MessageToDict(card))


def _read(given: AgentCard | JsonObject) -> tuple[AgentCard, str]:
    """Return a copy of the card, and the application's address (empty if none was passed)."""
    if isinstance(given, AgentCard):
        card = AgentCard()
        card.CopyFrom(given)
        return card, ""
    members = {name: value for name, value in given.items() if name != "url"}
    url = given.get("url", "")
    if not isinstance(url, str):
        raise ConfigError("The `url` of a card must be a string.")
    try:
        return ParseDict(cast("Any", members), AgentCard()), url
    except ProtobufParseError as error:
        raise ConfigError(f"The card of the agent is not valid: {error}") from None


def _interfaces(url: str) -> list[AgentInterface]:
    """Return the interfaces that an application at this address serves.

    Raises:
        ConfigError: The address is not an HTTP address.
    """
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigError(f"The `url` of a card must be an HTTP address, not {url!r:.200}.")
    base = url.rstrip("/")
    return [
        AgentInterface(url=f"{base}/rpc", protocol_binding="JSONRPC", protocol_version="1.0"),
        AgentInterface(
            url=f"{base}{REST_PATH}", protocol_binding="HTTP+JSON", protocol_version="1.0"
        ),
        AgentInterface(url=f"{base}/rpc", protocol_binding="JSONRPC", protocol_version="0.3"),
    ]

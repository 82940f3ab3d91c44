"""Known MCP clients: what their dialogs can show, and whether a decline can be trusted.

The capabilities that a client advertises are not sufficient. Some clients automatically decline a
form that no person saw, and some clients drop fields that they cannot show. `CLIENTS` lists these
clients. An unknown client receives all questions. Its answers are validated, and a decline counts
as the person's decision unless it arrives faster than a person can react.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct

from midturn.integrations.hooks import claude, claude_deferring, codex, copilot, gemini, qwen
from midturn.integrations.hooks.hook_agent import HookAgent, Installation
from midturn.integrations.hooks.model_messages import asker_name
from midturn.plugins import Registry
from midturn.question.answer_type import (
    BooleanType,
    MultiSelectType,
    SchemaType,
    SelectType,
    TextType,
)
from midturn.question.json_value import JsonObject, members, text

if TYPE_CHECKING:
    from midturn.question.question import Question

FieldKind: TypeAlias = Literal["boolean", "choice", "several", "text", "number"]
_ALL: Final[frozenset[FieldKind]] = frozenset(("boolean", "choice", "several", "text", "number"))
_BASIC: Final[frozenset[FieldKind]] = frozenset(("boolean", "choice", "text"))


class Client(Struct, frozen=True, kw_only=True):
    """Known properties of an MCP client.

    Args:
        agent: Name of the client's agent in `midturn hook`.
        name: Display name.
        kinds: Kinds of questions that the client's dialog supports.
        can_decline: Whether a decline can be a person's decision. False for clients that are
            known to decline automatically.
        sorts: Whether the client sorts the fields of a form by name.
        holds_clock: Whether the client suspends the timeout of a call while its dialog is open.
        closes_only_pushed: Whether the server can close a dialog only if it uses the older
            protocol. With the newer protocol, the dialog stays open until the user closes it.
    """

    agent: str = ""
    name: str = ""
    kinds: frozenset[FieldKind] = _ALL
    can_decline: bool = True
    sorts: bool = False
    holds_clock: bool = False
    closes_only_pushed: bool = False


_UNKNOWN: Final = Client()
CLIENTS: Final[Mapping[str, Client]] = {
    "claude-code": Client(
        agent="claude", name="Claude Code", holds_clock=True, closes_only_pushed=True
    ),
    "codex-mcp-client": Client(
        agent="codex", name="Codex", kinds=_BASIC, can_decline=False, sorts=True, holds_clock=True
    ),
    "copilot-cli": Client(
        agent="copilot", name="Copilot CLI", holds_clock=True, closes_only_pushed=True
    ),
    "github-copilot": Client(
        agent="copilot", name="Copilot CLI", holds_clock=True, closes_only_pushed=True
    ),
    "gemini-cli": Client(agent="gemini", name="Gemini CLI", kinds=frozenset(), can_decline=False),
    "qwen": Client(agent="qwen", name="Qwen Code", kinds=frozenset(), can_decline=False),
    "opencode": Client(agent="opencode", name="opencode", kinds=frozenset(), can_decline=False),
}
"""Clients by the prefix of the name that the client reports."""


def client_of(name: str) -> Client:
    """Return the known properties of a client. `name` is the name that the client reports."""
    plain = name.strip().casefold()
    known = next(
        (client for prefix, client in CLIENTS.items() if plain.startswith(prefix)), _UNKNOWN
    )
    return known if known.name else Client(name=asker_name(name, "MCP client"))


def can_show(client: Client, questions: Sequence[Question[Any]]) -> bool:
    """Return whether a client's dialog can show all of these questions in one form."""
    return all(_kind(question) in client.kinds for question in questions)


def _kind(question: Question[Any]) -> FieldKind | None:
    match question.answer_type:
        case BooleanType():
            return "boolean"
        case SelectType():
            return "choice"
        case MultiSelectType():
            return "several"
        case TextType():
            return "text"
        case SchemaType(schema=schema):
            return {
                "string": "text",
                "number": "number",
                "integer": "number",
                "boolean": "boolean",
            }.get(text(schema.get("type")))  # type: ignore[return-value]  # all values are kinds
        case _:
            return None


def is_unattended(client: Client, environment: Mapping[str, str], meta: JsonObject) -> bool:
    """Return whether the client runs without a person at its terminal. False if unknown."""
    match client.agent:
        case "claude":
            attended = environment.get("CLAUDE_CODE_SESSION_ATTENDED", "")
            return (
                attended == "0"
                if attended
                else environment.get("CLAUDE_CODE_ENTRYPOINT", "cli").startswith("sdk")
            )
        case "codex":
            return text(members(meta.get("x-codex-turn-metadata")).get("turn_trigger")) == "exec"
        case _:
            return False


def session_of(client: Client, environment: Mapping[str, str], meta: JsonObject) -> str:
    """Return the client's session id, or an empty string if the client sends none."""
    variable = {
        "claude": "CLAUDE_CODE_SESSION_ID",
        "copilot": "COPILOT_AGENT_SESSION_ID",
        "qwen": "QWEN_CODE_SESSION_ID",
    }
    from_environment = environment.get(variable.get(client.agent, ""), "")
    return from_environment or text(members(meta.get("x-codex-turn-metadata")).get("session_id"))


def call_id_of(meta: JsonObject) -> str:
    """Return the client's call id, or an empty string if the client sends none."""
    return text(meta.get("claudecode/toolUseId")) or text(meta.get("callId"))


# --------------------------------------------------------------------------------------------------
# Agents with hooks


FindInstallation: TypeAlias = Callable[[Path, Path | None, Mapping[str, str]], Installation]


class AgentSupport(Struct, frozen=True, kw_only=True):
    """Support for an agent with hooks. To add an agent, a package registers an `AgentSupport` as
    an entry point in the group `midturn.agents`. The entry point's name is the agent's key.

    Args:
        hooks: Reads and writes the documents of the agent's hooks.
        installation: Returns the settings file and its hooks, for a user's home directory or for
            a project.
        deferring: Support for runs that end when a person is needed, and continue when resumed.
    """

    hooks: HookAgent
    installation: FindInstallation
    deferring: AgentSupport | None = None


BUILT_IN: Final[Mapping[str, AgentSupport]] = {
    "claude": AgentSupport(
        hooks=claude.Claude(),
        installation=claude.installation,
        deferring=AgentSupport(
            hooks=claude_deferring.DeferringClaude(), installation=claude_deferring.installation
        ),
    ),
    "codex": AgentSupport(hooks=codex.Codex(), installation=codex.installation),
    "gemini": AgentSupport(hooks=gemini.Gemini(), installation=gemini.installation),
    "qwen": AgentSupport(hooks=qwen.Qwen(), installation=qwen.installation),
    "copilot": AgentSupport(hooks=copilot.Copilot(), installation=copilot.installation),
}
AGENTS: Final[Mapping[str, HookAgent]] = {key: support.hooks for key, support in BUILT_IN.items()}


def support_of(key: str) -> AgentSupport:
    """Return the support for an agent, built in or from an installed package.

    Raises:
        ConfigError: The agent is unknown, or its package cannot be loaded or used.
    """
    return BUILT_IN[key] if key in BUILT_IN else AGENTS_ADDED.load(key)


def known_agents() -> list[str]:
    """Return the keys of all agents with hooks, built in and from packages."""
    return [*BUILT_IN, *AGENTS_ADDED.added]


def _is_support(found: object, key: str) -> bool:
    return isinstance(found, AgentSupport) and found.hooks.key == key


AGENTS_ADDED: Final[Registry[AgentSupport]] = Registry(
    kind="agent",
    built_in=tuple(BUILT_IN),
    fits=_is_support,
    ought="an `AgentSupport` for an agent with that key",
)
"""Support from packages, by agent key."""

"""Known clients of the Model Context Protocol: what they show, and when they can be believed.

What a client advertises is not enough: some answer for people who never saw a form, some drop what they cannot draw. The table lists them.
A client that is not in the table is shown questions, what it accepts is checked, and its decline is a person's, unless it comes too soon.
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
from midturn.question.answer_type import BooleanType, MultiSelectType, SchemaType, SelectType, TextType
from midturn.question.json_value import JsonObject, members, text

if TYPE_CHECKING:
    from midturn.question.question import Question

FieldKind: TypeAlias = Literal["boolean", "choice", "several", "text", "number"]
_ALL: Final[frozenset[FieldKind]] = frozenset(("boolean", "choice", "several", "text", "number"))
_PLAIN: Final[frozenset[FieldKind]] = frozenset(("boolean", "choice", "text"))


class Client(Struct, frozen=True, kw_only=True):
    """One client.

    Args:
        agent: How `midturn hook` calls it.
        name: What people call it.
        kinds: The kinds of questions that its dialog can ask.
        can_decline: A decline may be a person's. False for clients that are known to decline by themselves.
        sorts: It sorts the fields of a form by their names.
        holds_clock: A call may take as long as its dialog is open.
        closes_only_pushed: A dialog that it opens in the newer version of the protocol stays open until it is left; one that a server has
            pushed in the older version closes when the server withdraws it.
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
    "claude-code": Client(agent="claude", name="Claude Code", holds_clock=True, closes_only_pushed=True),
    "codex-mcp-client": Client(agent="codex", name="Codex", kinds=_PLAIN, can_decline=False, sorts=True, holds_clock=True),
    "copilot-cli": Client(agent="copilot", name="Copilot CLI", holds_clock=True, closes_only_pushed=True),
    "github-copilot": Client(agent="copilot", name="Copilot CLI", holds_clock=True, closes_only_pushed=True),
    "gemini-cli": Client(agent="gemini", name="Gemini CLI", kinds=frozenset(), can_decline=False),
    "qwen": Client(agent="qwen", name="Qwen Code", kinds=frozenset(), can_decline=False),
    "opencode": Client(agent="opencode", name="opencode", kinds=frozenset(), can_decline=False),
}
"""By the beginning of the name that a client gives itself."""


def client_of(name: str) -> Client:
    """Return what is known of a client, by the name that it gives itself."""
    plain = name.strip().casefold()
    known = next((client for beginning, client in CLIENTS.items() if plain.startswith(beginning)), _UNKNOWN)
    return known if known.name else Client(name=asker_name(name, "MCP client"))


def can_show(client: Client, questions: Sequence[Question[Any]]) -> bool:
    """Say whether a client's dialog can ask all of these questions in one form."""
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
            return {"string": "text", "number": "number", "integer": "number", "boolean": "boolean"}.get(text(schema.get("type")))  # type: ignore[return-value]  # each is a kind
        case _:
            return None


def is_alone(client: Client, environment: Mapping[str, str], meta: JsonObject) -> bool:
    """Say whether no one sits at the client's terminal, where it tells."""
    match client.agent:
        case "claude":
            attended = environment.get("CLAUDE_CODE_SESSION_ATTENDED", "")
            return attended == "0" if attended else environment.get("CLAUDE_CODE_ENTRYPOINT", "cli").startswith("sdk")
        case "codex":
            return text(members(meta.get("x-codex-turn-metadata")).get("turn_trigger")) == "exec"
        case _:
            return False


def session_of(client: Client, environment: Mapping[str, str], meta: JsonObject) -> str:
    """Return the client's own name for its session, where it gives one."""
    variable = {"claude": "CLAUDE_CODE_SESSION_ID", "copilot": "COPILOT_AGENT_SESSION_ID", "qwen": "QWEN_CODE_SESSION_ID"}
    from_environment = environment.get(variable.get(client.agent, ""), "")
    return from_environment or text(members(meta.get("x-codex-turn-metadata")).get("session_id"))


def call_id_of(meta: JsonObject) -> str:
    """Return the id that the client itself gives a call; an empty one where it gives none."""
    return text(meta.get("claudecode/toolUseId")) or text(meta.get("callId"))


# ----------------------------------------------------------------------------------------------------------------------
# The agents whose hooks we speak with


Locating: TypeAlias = Callable[[Path, Path | None, Mapping[str, str]], Installation]


class AgentSupport(Struct, frozen=True, kw_only=True):
    """Everything known of an agent with hooks. A package brings one as an entry point of `midturn.agents`, under the agent's key.

    Args:
        hooks: How its hooks speak.
        installation: Returns what is installed where: for the user whose home is given, or for a project.
        deferring: The same for runs that can end where a person is needed, and go on when they are resumed.
    """

    hooks: HookAgent
    installation: Locating
    deferring: AgentSupport | None = None


OURS: Final[Mapping[str, AgentSupport]] = {
    "claude": AgentSupport(
        hooks=claude.Claude(),
        installation=claude.installation,
        deferring=AgentSupport(hooks=claude_deferring.DeferringClaude(), installation=claude_deferring.installation),
    ),
    "codex": AgentSupport(hooks=codex.Codex(), installation=codex.installation),
    "gemini": AgentSupport(hooks=gemini.Gemini(), installation=gemini.installation),
    "qwen": AgentSupport(hooks=qwen.Qwen(), installation=qwen.installation),
    "copilot": AgentSupport(hooks=copilot.Copilot(), installation=copilot.installation),
}
AGENTS: Final[Mapping[str, HookAgent]] = {key: support.hooks for key, support in OURS.items()}


def support_of(key: str) -> AgentSupport:
    """Return what is known of an agent: by midturn itself, or by an installed package.

    Raises:
        ConfigError: There is no such agent, or its package cannot be loaded or used.
    """
    return OURS[key] if key in OURS else AGENTS_ADDED.load(key)


def known_agents() -> list[str]:
    """Return the keys of all agents with hooks: ours, and those that packages add."""
    return [*OURS, *AGENTS_ADDED.added]


def _is_support(found: object, key: str) -> bool:
    return isinstance(found, AgentSupport) and found.hooks.key == key


AGENTS_ADDED: Final[Registry[AgentSupport]] = Registry(
    kind="agent", built_in=tuple(OURS), fits=_is_support, ought="an `AgentSupport` for an agent with that key"
)
"""Support for agents that packages add, by the key of the agent."""

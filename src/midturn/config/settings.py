"""The resolved configuration, as immutable structs.

The field defaults are the default values of the keys.
"""

# No `from __future__ import annotations`: msgspec reads these annotations, and evaluating them from
# text would slow down every start.

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import ConfigError
from midturn.events.types import Source
from midturn.exchange import DEFAULT_CACHE, DEFAULT_RETRIES, Family
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, Limits
from midturn.question.people import Directory
from midturn.question.text import OutputProtocol, did_you_mean
from midturn.routing.policy import ToolPolicy
from midturn.routing.rules import Ruling, RunRules, strictest
from midturn.security.profile import Declared
from midturn.terminal.prompts.settings import ScreenSettings

ToolSource: TypeAlias = Literal["builtin", "local", "mcp", "plugin"]
ToolStyle: TypeAlias = Literal["line", "full"]


# Enabled tools. `-t` and `-T` flags change them, in order
# ----------------------------------------------------------

AllowToggle: TypeAlias = Literal["any", "never", "if_named"]


class Enable(Struct, frozen=True):
    """Whether a tool is enabled, and whether `-t` and `-T` can change this."""

    state: bool = True
    allow_toggle: AllowToggle = "any"


class Toggle(Struct, frozen=True):
    """A `-t` (`on`) or `-T` flag, for the tool `name` or for all tools."""

    on: bool
    name: str | None = None


def offered(tools: Mapping[str, Enable], toggles: Sequence[Toggle]) -> tuple[str, ...]:
    """Return the names of the enabled tools, in the order of `tools`.

    Toggles apply in order. A toggle without a name changes the tools whose policy is `any`. A
    toggle with a name changes that tool, unless its policy is `never`.

    Raises:
        ConfigError: A toggle names an unknown tool, or a tool whose policy is `never`.
    """
    state = {name: enable.state for name, enable in tools.items()}
    for toggle in toggles:
        if toggle.name is None:
            state |= {
                name: toggle.on for name, enable in tools.items() if enable.allow_toggle == "any"
            }
        else:
            _check(toggle, tools)
            state[toggle.name] = toggle.on
    return tuple(name for name, on in state.items() if on)


def _check(toggle: Toggle, tools: Mapping[str, Enable]) -> None:
    flag, name = "-t" if toggle.on else "-T", toggle.name or ""
    if name not in tools:
        raise ConfigError(f"{flag} {name}: no such tool.{did_you_mean(name, tools)}")
    if tools[name].allow_toggle == "never":
        raise ConfigError(
            f"{flag} {name}: this tool cannot be toggled because of"
            f' `conversation.tools.{name}.enable.allow_toggle = "never"`.'
        )


# Settings of models, tools, servers, the user, the page, channels and notifications
# --------------------------------------------------------------------------------------------------


class ModelSettings(Struct, frozen=True, kw_only=True):
    """A model.

    `parameters` (`temperature`, …) are sent to the model unchanged. The path in a `scripted:` ID is
    absolute.
    """

    id: str | None = None
    parameters: JsonObject = {}


class RequestSettings(Struct, frozen=True, kw_only=True):
    """Options of model requests. `cache` is `off`, `short`, `long` or a duration such as `5m`."""

    cache: str = DEFAULT_CACHE
    max_retries: int = DEFAULT_RETRIES


class AssistantSettings(Struct, frozen=True, kw_only=True):
    """A model and its instructions. `tool_choice` is `auto`, `none`, `required` or the name of a
    tool.
    """

    name: str = "Midturn"
    system_prompt: str = (
        "You help the user of this workspace. Use the tools to look before you answer and to do"
        " what is asked. Say plainly what you did, and what you could not do."
    )
    model: ModelSettings = ModelSettings()
    tool_choice: str = "auto"
    request: RequestSettings = RequestSettings()


class ToolSettings(Struct, frozen=True, kw_only=True):
    """Configuration of one tool.

    `source` is None for a tool that a program registers. With `shell`, `command` is a script and
    its arguments. `parameters` maps argument names to JSON Schemas, and `required` lists the
    mandatory arguments. `environment` maps variables to values, or to None to inherit the variable.
    `timeout` is in seconds. `plugin` names a tool of an installed package.
    """

    name: str
    policy: ToolPolicy
    source: ToolSource | None = None
    summary: str | None = None
    description: str | None = None
    command: tuple[str, ...] = ()
    shell: bool = False
    protocol: OutputProtocol = "text"
    parameters: Mapping[str, JsonObject] = {}
    required: tuple[str, ...] = ()
    timeout: float | None = None
    environment: Mapping[str, str | None] = {}
    cwd: str | None = None
    sandbox: Declared = Declared()
    rename: str | None = None
    plugin: str = ""
    hidden: bool = False
    enable: Enable = Enable()
    style: ToolStyle = "line"

    @property
    def arguments_schema(self) -> JsonObject:
        """The JSON Schema of the arguments of a call."""
        properties = dict(self.parameters)
        return {
            "type": "object",
            "properties": properties,
            "required": list(self.required),
            "additionalProperties": False,
        }


class LlmProvider(Struct, frozen=True, kw_only=True):
    """A provider of models. `profile` replaces the known capabilities of its models."""

    kind: Family
    base_url: str | None = None
    api_key_env: str | None = None
    profile: JsonObject = {}


McpProtocol: TypeAlias = Literal["auto", "2025-11-25", "2026-07-28"]


class McpServerSettings(Struct, frozen=True, kw_only=True):
    """An MCP server: a `command` to start, or a `url` to connect to.

    `environment` has the same format as in `ToolSettings`. `protocol` is the protocol version;
    `auto` selects the newest version that both sides support. `definition` is a fingerprint of the
    program or address. `is_local` is true if a workspace file defines the server, or if the server
    runs a workspace file.
    """

    command: tuple[str, ...] = ()
    url: str | None = None
    headers: Mapping[str, str] = {}
    environment: Mapping[str, str | None] = {}
    sandbox: Declared = Declared()
    sampling: bool = False
    protocol: McpProtocol = "auto"
    definition: str = ""
    is_local: bool = False


class DisplaySettings(Struct, frozen=True, kw_only=True):
    """Settings of the display for everything except the assistant's text."""

    reasoning: bool = False


class UserSettings(Struct, frozen=True, kw_only=True):
    """The user whose name is recorded with answers. Without a name, the login name is recorded."""

    name: str | None = None


class WebSettings(Struct, frozen=True, kw_only=True):
    """Options of the web page.

    `secrets`: True also accepts secrets behind a proxy, False never accepts secrets, and None
    accepts them on private connections only.
    """

    secrets: bool | None = None


class ChannelTable(Struct, frozen=True, kw_only=True):
    """A configured channel: its questions and recipients.

    `options` contains the options that only this kind of channel has. An option `<key>_env` names
    an environment variable.
    """

    name: str
    kind: str
    asks: tuple[str, ...] = ("tool", "run", "deliver", "review")
    people: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
    options: JsonObject = {}


class NotificationSettings(Struct, frozen=True, kw_only=True):
    """Addresses to which a question is sent after it has been open for `after` seconds.

    `urls` is one or more Apprise URLs.
    """

    urls: str | tuple[str, ...] = ()
    after: float = 20.0

    @property
    def services(self) -> tuple[str, ...]:
        """The URLs as a tuple."""
        return (self.urls,) if isinstance(self.urls, str) else self.urls


class Settings(Struct, frozen=True, kw_only=True):
    """The resolved configuration.

    `notify` is the command of `notify.command`. `inquiry` contains the settings of side requests
    that differ from `assistant`. `agents` contains the rules for tool calls by other agents, by
    agent and tool.
    """

    assistant: AssistantSettings = AssistantSettings()
    inquiry: JsonObject = {}
    tools: Mapping[str, ToolSettings] = {}
    any_tool: ToolSettings = ToolSettings(name="*", policy=ToolPolicy(source=Source.tool("*")))
    toggles: tuple[Toggle, ...] = ()
    agents: Mapping[str, Mapping[str, tuple[RunRules, ...]]] = {}
    llm: Mapping[str, LlmProvider] = {}
    mcp: Mapping[str, McpServerSettings] = {}
    limits: Limits = DEFAULT_LIMITS
    prompt: ScreenSettings = ScreenSettings()
    display: DisplaySettings = DisplaySettings()
    user: UserSettings = UserSettings()
    web: WebSettings = WebSettings()
    notify: tuple[str, ...] = ()
    notifications: NotificationSettings = NotificationSettings()
    directory: Directory = Directory()
    channels: tuple[ChannelTable, ...] = ()

    def ruling(self, agent: str, tool: str, arguments: Json) -> Ruling:
        """Evaluate the rules for a tool call by another agent.

        If no rule matches, the user is asked.
        """
        return self.with_people(strictest(Ruling("ask"), self.agent_rules(agent, tool), arguments))

    def definition_of(self, name: str) -> str:
        """Return the fingerprint of a tool's program, or of its MCP server.

        Return an empty string if it is unknown.
        """
        found = self.tool(name)
        if found.policy.definition:
            return found.policy.definition
        return next(
            (
                server.definition
                for known, server in self.mcp.items()
                if name.startswith(f"{known}_")
            ),
            "",
        )

    def tool_of_server(self, name: str, server: str) -> ToolSettings:
        """Return the settings of an MCP server's tool.

        Standing permissions for the tool become invalid if the definition of the server changes.
        """
        found, access = self.tool(name), self.mcp.get(server)
        if access is None:
            return found
        policy = replace(found.policy, definition=access.definition, is_local=access.is_local)
        return replace(found, policy=policy)

    def with_people(self, ruling: Ruling) -> Ruling:
        """Return the result of the rules with each group replaced by its members."""
        return (
            replace(ruling, people=self.directory.filled_in(ruling.people))
            if ruling.people
            else ruling
        )

    def agent_rules(self, agent: str, tool: str) -> tuple[RunRules, ...]:
        """Return the rules for another agent's tool."""
        tools = self.agents.get(agent, {})
        return tools.get(tool, tools.get("*", ()))

    def tool(self, name: str) -> ToolSettings:
        """Return the settings of a tool, or the settings of `'*'` if the tool has none."""
        found = self.tools.get(name)
        if found is not None:
            return found
        renamed = next((tool for tool in self.tools.values() if tool.rename == name), None)
        if renamed is not None:
            return replace(renamed, name=name)
        policy = replace(self.any_tool.policy, source=Source.tool(name))
        return replace(self.any_tool, name=name, policy=policy)

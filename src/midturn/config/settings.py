"""Settings: a configuration as frozen values, with defaults for keys that only a configuration sets."""

# Without `from __future__ import annotations`: msgspec reads what stands here, and would compile each annotation from text at every start.

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


# Offered tools: a list of names and toggles, applied in order ---------------------------------------------------------

AllowToggle: TypeAlias = Literal["any", "never", "if_named"]


class Enable(Struct, frozen=True):
    """Whether a tool is offered, and whether `-t` and `-T` may change that."""

    state: bool = True
    allow_toggle: AllowToggle = "any"


class Toggle(Struct, frozen=True):
    """One `-t` (`on`) or `-T` of the command line, on the tool `name` or on all."""

    on: bool
    name: str | None = None


def offered(tools: Mapping[str, Enable], toggles: Sequence[Toggle]) -> tuple[str, ...]:
    """Return the names of the tools that a model is offered, in the order of `tools`.

    Toggles apply in the order given, and change `state` alone: a bare one where the policy is `any`, a named one unless it is `never`.

    Raises:
        ConfigError: A toggle names a tool that is not there, or one whose policy is `never`.
    """
    state = {name: enable.state for name, enable in tools.items()}
    for toggle in toggles:
        if toggle.name is None:
            state |= {name: toggle.on for name, enable in tools.items() if enable.allow_toggle == "any"}
        else:
            _check(toggle, tools)
            state[toggle.name] = toggle.on
    return tuple(name for name, on in state.items() if on)


def _check(toggle: Toggle, tools: Mapping[str, Enable]) -> None:
    flag, name = "-t" if toggle.on else "-T", toggle.name or ""
    if name not in tools:
        raise ConfigError(f"{flag} {name}: there is no such tool.{did_you_mean(name, tools)}")
    if tools[name].allow_toggle == "never":
        raise ConfigError(f'{flag} {name}: this tool is locked by `conversation.tools.{name}.enable.allow_toggle = "never"`.')


# Settings of models, tools and the rest -------------------------------------------------------------------------------


class ModelSettings(Struct, frozen=True, kw_only=True):
    """A model; `parameters` go to it unchanged (`temperature`, …). The file of a `scripted:` id is absolute."""

    id: str | None = None
    parameters: JsonObject = {}


class RequestSettings(Struct, frozen=True, kw_only=True):
    """Options of requests to a model; `cache` is `off`, `short`, `long` or a duration such as `5m`."""

    cache: str = DEFAULT_CACHE
    max_retries: int = DEFAULT_RETRIES


class AssistantSettings(Struct, frozen=True, kw_only=True):
    """A model and how to speak to it. `tool_choice` is `auto`, `none`, `required` or the name of a tool."""

    name: str = "Midturn"
    system_prompt: str = (
        "You help the user of this workspace. Use the tools to look before you answer and to do what is asked. "
        "Say plainly what you did, and what you could not do."
    )
    model: ModelSettings = ModelSettings()
    tool_choice: str = "auto"
    request: RequestSettings = RequestSettings()


class ToolSettings(Struct, frozen=True, kw_only=True):
    """Configuration of one tool.

    `source` is None for a tool that other code registers. With `shell`, `command` is the script and its arguments. `parameters`
    holds the JSON Schema of each argument by name, `required` the names of those that must be given. `environment` maps names to
    values, or to None where the value of our own environment is passed on. `timeout` is in seconds.
    `plugin` names a tool of an installed package.
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
        """The JSON Schema of a call's arguments."""
        properties = dict(self.parameters)
        return {"type": "object", "properties": properties, "required": list(self.required), "additionalProperties": False}


class LlmProvider(Struct, frozen=True, kw_only=True):
    """Access to a provider's models. `profile` overrides what is known about what they can do."""

    kind: Family
    base_url: str | None = None
    api_key_env: str | None = None
    profile: JsonObject = {}


McpProtocol: TypeAlias = Literal["auto", "2025-11-25", "2026-07-28"]


class McpServerSettings(Struct, frozen=True, kw_only=True):
    """Access to an MCP server: a `command` to start, or a `url`. `environment` as in `ToolSettings`.

    `protocol` is the version that is spoken; `auto` is the newest that both sides know.
    `definition` is a fingerprint of these, `is_local`: a file of the workspace sets them or is run.
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
    """Display of everything besides the assistant's words."""

    reasoning: bool = False


class UserSettings(Struct, frozen=True, kw_only=True):
    """The person who answers at commands, recorded with each answer. Without a name, the login."""

    name: str | None = None


class WebSettings(Struct, frozen=True, kw_only=True):
    """Permissions of the page. `secrets`: True takes them behind a proxy, too, False nowhere; None where no one else can read them."""

    secrets: bool | None = None


class ChannelTable(Struct, frozen=True, kw_only=True):
    """A channel as configured: what questions it carries, to whom, and in `options` what its kind takes; `<key>_env` names a variable."""

    name: str
    kind: str
    asks: tuple[str, ...] = ("tool", "run", "deliver", "review")
    people: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
    options: JsonObject = {}


class NotificationSettings(Struct, frozen=True, kw_only=True):
    """Destinations of a question that has waited for `after` seconds; `urls` are addresses of Apprise, one or several."""

    urls: str | tuple[str, ...] = ()
    after: float = 20.0

    @property
    def services(self) -> tuple[str, ...]:
        """The addresses."""
        return (self.urls,) if isinstance(self.urls, str) else self.urls


class Settings(Struct, frozen=True, kw_only=True):
    """The whole configuration, resolved. `notify` is the command of `notify.command`; `inquiry` what differs from `assistant`.

    `agents` has the rules about the calls of other agents, by agent and tool.
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
        """Say what the rules say about a call of another agent: it is asked about where none holds."""
        return self.with_people(strictest(Ruling("ask"), self.agent_rules(agent, tool), arguments))

    def definition_of(self, name: str) -> str:
        """Return the fingerprint of what a tool runs; of a tool of an MCP server, that of the server. Empty if nothing is known."""
        found = self.tool(name)
        if found.policy.definition:
            return found.policy.definition
        return next((server.definition for known, server in self.mcp.items() if name.startswith(f"{known}_")), "")

    def tool_of_server(self, name: str, server: str) -> ToolSettings:
        """Return what applies to a tool of an MCP server. Standing permissions are bound to the server, too."""
        found, access = self.tool(name), self.mcp.get(server)
        if access is None:
            return found
        policy = replace(found.policy, definition=access.definition, is_local=access.is_local)
        return replace(found, policy=policy)

    def with_people(self, ruling: Ruling) -> Ruling:
        """Return what rules say about a call with the people behind the names that they put it to."""
        return replace(ruling, people=self.directory.filled_in(ruling.people)) if ruling.people else ruling

    def agent_rules(self, agent: str, tool: str) -> tuple[RunRules, ...]:
        """Return the rules about a tool of another agent."""
        tools = self.agents.get(agent, {})
        return tools.get(tool, tools.get("*", ()))

    def tool(self, name: str) -> ToolSettings:
        """Return what applies to the tool `name`, configured by name or not."""
        found = self.tools.get(name)
        if found is not None:
            return found
        renamed = next((tool for tool in self.tools.values() if tool.rename == name), None)
        if renamed is not None:
            return replace(renamed, name=name)
        policy = replace(self.any_tool.policy, source=Source.tool(name))
        return replace(self.any_tool, name=name, policy=policy)

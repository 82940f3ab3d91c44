"""Uses remote agents as models. The model ID contains the address: `agui:URL` or `a2a:URL`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from midturn.agent.assembly.command_line import CommandArguments
from midturn.agent.assembly.models import A2A, AGUI, REMOTE
from midturn.cli.command_context import environment
from midturn.cli.token_server import check_installed
from midturn.config.settings import ToolSettings
from midturn.errors import ConfigError
from midturn.ports import Model
from midturn.question.json_value import JsonObject

if TYPE_CHECKING:
    from midturn.tools.function import FunctionTool  # not imported for other models

TOKEN_VARIABLE = "token_env"  # noqa: S105  the name of a parameter
"""The model parameter that names the environment variable with the token."""


def with_remote_agent(arguments: CommandArguments) -> CommandArguments:
    """If the configured model is a remote agent, return arguments that use it as the model, with
    only the tool that it needs. Otherwise, return `arguments` unchanged.

    Raises:
        ConfigError: The address is not valid, the extra is not installed, or the token is missing.
    """
    settings = arguments.settings
    id = settings.assistant.model.id or ""  # noqa: A001
    if not id.startswith(REMOTE):
        return arguments
    headers = _headers(settings.assistant.model.parameters)
    model, tool = _a2a(id, headers) if id.startswith(A2A) else _agui(id, headers)
    any_tool = settings.any_tool
    policy = replace(any_tool.policy, run="unattended", rules=(), questions={})
    asking = ToolSettings(name=tool.name, policy=policy)
    return replace(
        arguments,
        settings=replace(settings, tools={tool.name: asking}, toggles=(), mcp={}),
        others=[tool],
        model=model,
    )


def _agui(id: str, headers: Mapping[str, str]) -> tuple[Model, FunctionTool[Any, Any]]:
    """Return a remote agent that speaks AG-UI, and the tool that asks its questions."""
    check_installed("midturn.integrations.agui")
    from midturn.integrations.agui.remote_model import RemoteModel, ask_tool  # requires the extra

    model = RemoteModel(id.removeprefix(AGUI), headers)
    return model, ask_tool(model.agent_name)


def _a2a(id: str, headers: Mapping[str, str]) -> tuple[Model, FunctionTool[Any, Any]]:
    """Return a remote agent that speaks A2A, and the tool that sends messages to it."""
    check_installed("midturn.integrations.a2a")
    from midturn.integrations.a2a.remote_model import RemoteModel  # requires the extra

    model = RemoteModel(id.removeprefix(A2A), headers)
    return model, model.tool()


def _headers(parameters: JsonObject) -> dict[str, str]:
    """Return the headers of each request.

    Raises:
        ConfigError: The environment variable with the token is not set.
    """
    variable = parameters.get(TOKEN_VARIABLE)
    if variable is None:
        return {}
    token = environment().get(str(variable), "").strip()
    if not token:
        raise ConfigError(
            f"The environment variable {variable} is not set. It has to contain the token for the"
            " remote agent."
        )
    if not token.isascii() or not token.isprintable():
        raise ConfigError(f"The environment variable {variable} does not contain a valid token.")
    return {"authorization": f"Bearer {token}"}

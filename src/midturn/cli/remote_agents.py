"""Turns of a remote agent that speaks AG-UI: its address is the ID of the model, `agui:URL`."""

from __future__ import annotations

from msgspec.structs import replace

from midturn.agent.assembly.command_line import CommandArguments
from midturn.agent.assembly.models import REMOTE
from midturn.cli.command_context import environment
from midturn.cli.token_server import check_installed
from midturn.config.settings import ToolSettings
from midturn.errors import ConfigError
from midturn.question.json_value import JsonObject

TOKEN_VARIABLE = "token_env"  # noqa: S105  the name of a parameter
"""The parameter of the model that names the environment variable with the token."""


def with_remote_agent(arguments: CommandArguments) -> CommandArguments:
    """Return the arguments of a run. If the configured model is a remote agent, they contain it, and
    the only tool is the one that asks its questions.

    Raises:
        ConfigError: The address is not valid, the extra is not installed, or the token is missing.
    """
    settings = arguments.settings
    id = settings.assistant.model.id or ""  # noqa: A001
    if not id.startswith(REMOTE):
        return arguments
    check_installed("midturn.integrations.agui")
    from midturn.integrations.agui.remote_model import (  # requires the extra
        ASK_TOOL,
        RemoteModel,
        ask_tool,
    )

    headers = _headers(settings.assistant.model.parameters)
    model = RemoteModel(id.removeprefix(REMOTE), headers)
    any_tool = settings.any_tool
    policy = replace(any_tool.policy, run="unattended", rules=(), questions={})
    asking = ToolSettings(name=ASK_TOOL, policy=policy)
    return replace(
        arguments,
        settings=replace(settings, tools={ASK_TOOL: asking}, toggles=(), mcp={}),
        others=[ask_tool(model.agent_name)],
        model=model,
    )


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

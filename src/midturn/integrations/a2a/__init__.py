"""A2A: `app()` serves an agent to other agents, and `tool()` returns a tool that calls a remote
agent.

A2A is a protocol between agents: a message starts a task, and the task reports its state until it
ends. The package uses the official SDK for the wire formats. It needs the extra `a2a`.
"""

try:
    from midturn.integrations.a2a.app import app
    from midturn.integrations.a2a.remote_tool import tool
    from midturn.integrations.a2a.webhooks import PushSettings
except (
    ModuleNotFoundError
) as error:  # the extra is missing; if a module of midturn itself is missing, that is a bug
    if error.name is None or error.name.partition(".")[0] == "midturn":
        raise
    from midturn.extras import install_command

    raise ModuleNotFoundError(
        f"A2A needs the package {error.name!r}, which is not installed. Install the extra `a2a`:"
        f" {install_command('a2a')}",
        name=error.name,
    ) from error

__all__ = ["PushSettings", "app", "tool"]

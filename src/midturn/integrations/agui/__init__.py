"""AG-UI: `app()` serves an agent to chat front ends such as CopilotKit, and `tool()` makes a remote
agent available as a tool.

AG-UI is a protocol between front ends and agents. A run is one HTTP request whose response is a
stream of events. The front end needs `@ag-ui/client` or another client for the protocol. This
package needs the extra `agui`, but no SDK.
"""

try:
    from midturn.integrations.agui.app import app
    from midturn.integrations.agui.remote_tool import tool
except (
    ModuleNotFoundError
) as error:  # the extra is missing; if a module of midturn itself is missing, that is a bug
    if error.name is None or error.name.partition(".")[0] == "midturn":
        raise
    from midturn.extras import install_command

    raise ModuleNotFoundError(
        f"AG-UI needs the package {error.name!r}, which is not installed. Install the"
        f" extra `agui`: {install_command('agui')}",
        name=error.name,
    ) from error

__all__ = ["app", "tool"]

"""The web page for questions: `midturn serve`, and `inbox()`, an ASGI application to mount in a
program.

The page needs the extra `web`.
"""

try:
    from midturn.web.app import inbox
# the extra is missing; if a module of midturn itself is missing, that is a bug
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] == "midturn":
        raise
    from midturn.extras import install_command

    raise ModuleNotFoundError(
        f"The web page needs the package {error.name!r}, which is not installed. Install the extra"
        f" `web`: {install_command('web')}",
        name=error.name,
    ) from error

__all__ = ["inbox"]

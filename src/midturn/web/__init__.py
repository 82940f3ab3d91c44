"""The questions on a web page: `midturn serve`, and `inbox()`, an ASGI application to mount in your own.

It needs the extra `web`.
"""

try:
    from midturn.web.app import inbox
except ModuleNotFoundError as error:  # the extra is missing; anything of ours that is missing is a defect
    if error.name is None or error.name.partition(".")[0] == "midturn":
        raise
    from midturn.extras import install_command

    raise ModuleNotFoundError(
        f"The page needs the package {error.name!r}, which is not installed. Install the extra `web`: {install_command('web')}",
        name=error.name,
    ) from error

__all__ = ["inbox"]

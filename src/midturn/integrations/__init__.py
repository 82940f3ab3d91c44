"""Adapters for other frameworks, based on `Inquirer`. Tools in these frameworks call `midturn.ask`.
Each adapter needs the extra with the same name.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def needs_extra(extra: str, package: str) -> Generator[None]:
    """Import the package of a framework in this block. If it is missing, raise an error that names
    the extra to install.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        from midturn.extras import install_command

        message = f"The adapter for {package} needs the extra `{extra}`: {install_command(extra)}"
        raise ModuleNotFoundError(message, name=error.name) from error

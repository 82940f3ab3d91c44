"""Entry point of `python -m midturn` and of the `midturn` console script."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress

from midturn import __version__


def main() -> None:
    """Run the command line and end the process with its exit status.

    The garbage collector pauses while a command is loaded, because no loaded module becomes
    garbage.
    """
    if sys.argv[1:] == ["--version"] and _print_version():
        os._exit(0)
    gc.disable()
    atexit.register(_exit_quickly)
    if sys.argv[1:2] == ["hook"]:
        from midturn.cli.hook_run import (
            run_at_once,
        )  # an agent waits for this at each tool call, so skip the click commands

        status = run_at_once(sys.argv[2:])
        if status is not None:
            _exit(status)
    from midturn.cli.main import run

    _exit(run())


def _print_version() -> bool:
    """Print the version; return False if that fails, so that the command reports why."""
    with suppress(OSError):
        return os.write(1, f"midturn {__version__}\n".encode()) > 0
    return False


_exit_status: int | None = None


def _exit(status: int) -> None:
    global _exit_status  # noqa: PLW0603  there is one process to end
    _exit_status = status
    sys.exit(status)


def _exit_quickly() -> None:
    """End the process without freeing its memory, which would take several milliseconds.

    This function was registered first, so it runs after all other exit handlers, and after all
    threads have ended.
    """
    if _exit_status is None:  # an exception ends the process, and the interpreter reports it
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(_exit_status)


if __name__ == "__main__":
    main()

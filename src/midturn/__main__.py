"""`python -m midturn`, and the console script."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress

from midturn import __version__


def main() -> None:
    """Run the command line.

    While a command is loaded, nothing becomes garbage; and a process that ends needs nothing taken apart that its memory holds.
    """
    if sys.argv[1:] == ["--version"] and _says_version():
        os._exit(0)
    gc.disable()
    if sys.argv[1:2] == ["hook"]:
        from midturn.cli.hook_run import run_at_once  # each tool call of an agent waits for this

        status = run_at_once(sys.argv[2:])
        if status is not None:
            _leave(status)
    from midturn.cli.main import run

    _leave(run())


def _says_version() -> bool:
    """Say it at once; where that goes wrong, the command itself finds out why."""
    with suppress(OSError):
        return os.write(1, f"midturn {__version__}\n".encode()) > 0
    return False


def _leave(status: int) -> None:
    """End the process with everything written, and without taking the interpreter apart, unless something else still runs in it."""
    threads = sys.modules.get("threading")
    if threads is None or threads.active_count() == 1:
        atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  what was to be done at the end is done
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    main()

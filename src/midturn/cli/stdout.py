"""What becomes of stdout when nobody reads it any more."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def flush_stdout() -> None:
    """Write what is left, so that Python has nothing to complain about when it ends."""
    if sys.stdout is not None:
        sys.stdout.flush()


def forget_stdout() -> None:
    """Whoever read it is gone: let what is still to be written go nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)

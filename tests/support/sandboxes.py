"""Runs `midturn` with a chosen sandbox for its tools, so that bubblewrap is also tested on
systems with Landlock.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from midturn.security.confine import Means

_CHOSEN = """
import shutil
import sys
from midturn.__main__ import main
from midturn.security import confine, tool_sandbox
chosen = confine.SandboxBackend("bubblewrap")
tool_sandbox.sandbox_backend = confine.sandbox_backend = lambda: chosen
confine.bubblewrap = lambda: shutil.which("bwrap")
main()
"""


def program(means: Means) -> Sequence[str]:
    """Return the command that starts `midturn` with this sandbox."""
    if means != "bubblewrap":
        return (sys.executable, "-m", "midturn")
    assert shutil.which("bwrap"), "tools/install_parts installs it"
    return (sys.executable, "-c", _CHOSEN)

"""Commands of ours whose tools run in a sandbox that a test chooses: where there is Landlock, bubblewrap is tried as if there was none."""

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
chosen = confine.Offer("bubblewrap")
tool_sandbox.offer = confine.offer = lambda: chosen
confine.bubblewrap = lambda: shutil.which("bwrap")
main()
"""


def program(means: Means) -> Sequence[str]:
    """Return how `midturn` is started so that its tools run with these means."""
    if means != "bubblewrap":
        return (sys.executable, "-m", "midturn")
    assert shutil.which("bwrap"), "tools/install_parts installs it"
    return (sys.executable, "-c", _CHOSEN)

"""What stays open for all tests of a process, until the last of them is over: servers, connections and directories that they share.

At the end of the interpreter it would be too late: it waits for threads first, and some of them wait for what is to be closed.
"""

from __future__ import annotations

from contextlib import ExitStack

UNTIL_THE_END = ExitStack()

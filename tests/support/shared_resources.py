"""Resources that all tests of a process share (servers, connections, directories), closed after
its last test.

The exit of the interpreter would be too late: it first waits for threads, and some of them wait
for these resources to be closed.
"""

from __future__ import annotations

from contextlib import ExitStack

SESSION_RESOURCES = ExitStack()

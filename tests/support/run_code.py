"""Runs the code in its first argument, like `python -c`; see `processes.Forked`."""

from __future__ import annotations

import sys

code = sys.argv.pop(1)
sys.argv[0] = "-c"
exec(compile(code, "<lines of a test>", "exec"), {"__name__": "__main__"})

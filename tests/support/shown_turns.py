"""Shows turns on a separate terminal, with the steps of `play_turn.py`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from support import pty_session
from support.pty_session import PtySession

Steps: TypeAlias = list[list[Any]]
PLAY = Path(__file__).with_name("play_turn.py")
RICH = {"TERM": "xterm-256color"}
ANSWER = """# Backing off

The loop in `client.py` **never** backs off: it hits the server five times in a row, which the [runbook](https://example.com/runbook) warns
about. 本番環境 is shared 🚀 by everyone.

1. Add a backoff:

   ```python
   def fetch(url: str) -> bytes:
       for attempt in range(5):  # try again
           backoff(attempt)
   ```
2. Tell people
   - in the changelog, with a sentence that is long enough to be wrapped on any terminal
   - in the readme

> This is *not* reversible.

| Environment | Replicas | Notes |
|:------------|---------:|-------|
| staging | 3 | nightly copy |
| production | 12 | needs a ticket and a second pair of eyes |

---

Shall I?"""


def streamed(text: str, length: int = 7) -> Steps:
    """Return steps in which the model streams a text in pieces."""
    return [
        ["model"],
        *(["text", text[at : at + length]] for at in range(0, len(text), length)),
        ["answered"],
    ]


def shown(
    folder: Path,
    steps: Steps,
    *,
    size: tuple[int, int] = (80, 40),
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> PtySession:
    """Show a turn on a rich terminal, unless `environment` overrides it."""
    return pty_session.on_a_terminal(
        PLAY,
        [_written(folder, steps, settings)],
        size=size,
        environment={**RICH, **(environment or {})},
    )


def command(folder: Path, steps: Steps, **settings: Any) -> str:
    """Write a turn to a file, and return the shell command that shows it. Tests add redirections
    or run it in the background.
    """
    return shlex.join([sys.executable, str(PLAY), _written(folder, steps, settings)])


def on_a_terminal(
    shell: str, *, size: tuple[int, int] = (80, 40), environment: Mapping[str, str] | None = None
) -> PtySession:
    """Run a shell command on a rich terminal, unless `environment` overrides it."""
    return PtySession(
        ["/bin/sh", "-c", shell], size=size, environment={**RICH, **(environment or {})}
    )


def _written(folder: Path, steps: Steps, settings: Mapping[str, Any]) -> str:
    file = folder / "turn.json"
    file.write_text(json.dumps({"settings": settings, "steps": steps}), encoding="utf-8")
    return str(file)

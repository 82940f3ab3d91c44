"""Relays between a client and a server over stdio and logs the client's messages. Run it with
`python`: FILE COMMAND….
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO


def pass_on(source: IO[bytes], sink: IO[bytes], log: IO[bytes] | None = None) -> None:
    """Copy lines until the source ends."""
    for line in source:
        if log:
            log.write(line)
            log.flush()
        sink.write(line)
        sink.flush()
    sink.close()


def main(file: str, *command: str) -> int:
    """Run the server until the client disconnects."""
    with (
        Path(file).open("ab") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server,
    ):
        assert server.stdin
        assert server.stdout
        threading.Thread(
            target=pass_on, args=(server.stdout, sys.stdout.buffer), daemon=True
        ).start()
        pass_on(sys.stdin.buffer, server.stdin, log)
        return server.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

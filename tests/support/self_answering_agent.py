"""An agent that asks through midturn and then tries to answer its own question while hiding its
identity.

Run it as `python claude.py WAY COMMAND…`, from a copy with that name, because agents are
recognized by it. WAY is how it asks: `hook`, `mcp`, or `acp` (started by `midturn acp run`). Each
COMMAND is a shell line; the outputs are written to `printed` as a JSON list.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

MIDTURN = (sys.executable, "-m", "midturn")
_PATIENCE = 120.0


def _by_hook() -> subprocess.Popen[bytes]:
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    document = {
        "session_id": "s",
        "cwd": str(Path.cwd()),
        "hook_event_name": "PermissionRequest",
        **call,
    }
    process = subprocess.Popen(
        ["/bin/sh", "-c", '"$@"; exit', "sh", *MIDTURN, "hook", "claude"], stdin=subprocess.PIPE
    )
    assert process.stdin
    process.stdin.write(json.dumps(document).encode())
    process.stdin.close()
    return process


def _by_mcp() -> subprocess.Popen[bytes]:
    process = subprocess.Popen([*MIDTURN, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "claude-code", "version": "1"},
    }
    question = {"question": "Really?", "answer_type": "boolean"}
    messages: Sequence[dict[str, object]] = (
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "ask_user", "arguments": question}},
    )
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()
        if message.get("id") == 1:
            process.stdout.readline()
    return process


def _waits() -> bool:
    if not any(Path(os.environ["XDG_DATA_HOME"]).rglob("events.jsonl")):
        return False  # this check is cheap; the command takes half as long as a hook
    found = subprocess.run([*MIDTURN, "inbox", "--json"], capture_output=True, check=True)
    return bool(json.loads(found.stdout))


def main() -> None:
    way, *commands = sys.argv[1:]
    asking = {"hook": _by_hook, "mcp": _by_mcp}[way]() if way != "acp" else None
    end = time.monotonic() + _PATIENCE
    while asking and not _waits() and time.monotonic() < end:
        time.sleep(0.1)
    printed = [
        subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=False)
        for command in commands
    ]
    Path("printed.new").write_text(json.dumps([one.stdout + one.stderr for one in printed]))
    Path("printed.new").rename("printed")
    if asking:
        asking.kill()


if __name__ == "__main__":
    main()

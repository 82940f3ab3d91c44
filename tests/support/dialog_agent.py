"""An agent that asks through the tool `ask_user` and shows the question in its own dialog, where
a person answers yes.

Run it as `python claude.py`, from a copy with that name, because agents are recognized by it. It
prints the result that its model reads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

_READING = 0.6  # seconds before the person answers


def main() -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "midturn", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin
    assert server.stdout

    def send(**message: object) -> None:
        assert server.stdin
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()

    who: dict[str, object] = {
        "clientInfo": {"name": "claude-code", "version": "1"},
        "capabilities": {"elicitation": {}},
        "protocolVersion": "2025-06-18",
    }
    send(id=1, method="initialize", params=who)
    server.stdout.readline()
    send(method="notifications/initialized")
    call = {"name": "ask_user", "arguments": {"question": "Really?", "answer_type": "boolean"}}
    send(id=2, method="tools/call", params=call)
    for line in server.stdout:
        message = json.loads(line)
        if message.get("method") == "elicitation/create":
            time.sleep(_READING)
            send(id=message["id"], result={"action": "accept", "content": {"answer": True}})
        elif message.get("id") == 2:
            sys.stdout.write(message["result"]["content"][0]["text"])
            break
    server.stdin.close()
    server.wait()


if __name__ == "__main__":
    main()

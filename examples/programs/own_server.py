"""A model on your own server with settings, in the protocol of vLLM, Ollama, llama.cpp and
others. The server here is a scripted one.

$ python examples/programs/own_server.py
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import midturn as mt

CALL = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "deploy", "arguments": '{"env": "staging"}'},
}


class Server(BaseHTTPRequestHandler):
    """A fake server: it calls the tool and then reports the result."""

    def do_POST(self) -> None:
        """Respond with a stream, as these servers do."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
        delta = (
            {"role": "assistant", "content": f"I hear: {said[-1]}"}
            if said
            else {"role": "assistant", "tool_calls": [CALL]}
        )
        choice = {"index": 0, "delta": delta, "finish_reason": "stop" if said else "tool_calls"}
        chunk = {
            "id": "1",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": asked["model"],
            "choices": [choice],
        }
        usage = {
            **chunk,
            "choices": [],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
        self.send_response(
            200 if asked["temperature"] == 0 and self.headers["x-team"] == "shop" else 400
        )
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(
            "".join(f"data: {json.dumps(part)}\n\n" for part in (chunk, usage)).encode()
            + b"data: [DONE]\n\n"
        )

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def serving() -> Generator[str]:
    """Run the server; yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@mt.tool
async def deploy(env: str) -> str:
    """Deploy the service."""
    return (
        f"{env} is live."
        if await mt.ask(mt.Question.boolean("confirm", f"Deploy to {env}?"))
        else f"{env} is left."
    )


if __name__ == "__main__":
    with serving() as address:
        model = mt.ProviderModel(
            "shop/qwen3",
            base_url=address,
            parameters={"temperature": 0},
            headers={"x-team": "shop"},
            max_retries=1,
        )
        result = mt.Agent(model, tools=[deploy]).run_sync(
            "Ship it.", prompter=mt.ScriptedPrompter({"deploy.confirm": True})
        )
        print(
            result.raise_if_failed().text,
            f"({result.usage.requests} requests, {result.usage.total} tokens)",
        )

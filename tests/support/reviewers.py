"""A workspace in which a model on the loopback server reviews patches."""

from __future__ import annotations

from typing import Any

from support.cli import CommandLine
from support.providers.answers import Says, ToolUse
from support.providers.loopback import Loopback
from support.pty_session import PtySession
from support.wire_models import KEY, WIRES, OnWire

INHERIT = 'model.id = "inherit"\nescalation = true'
PATCH = Says(
    text="I will patch it.",
    calls=(
        ToolUse(
            "fs_modify_file",
            {"path": "plan.md", "edits": [{"old": "two", "new": "zwei"}]},
            "call_1",
        ),
    ),
)
YES = Says(text='{"reason": "Looks right.", "answer": true}')
NO = Says(text='{"reason": "The patch drops a test.", "answer": false}')
DONE = Says(text="Done.")
ANTHROPIC = WIRES[0]
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "google": "GOOGLE_API_KEY"}


class Reviewed:
    """Runs `midturn query` against the server. The model wants to patch `plan.md`."""

    def __init__(
        self,
        midturn: CommandLine,
        server: Loopback,
        *,
        wire: OnWire = ANTHROPIC,
        target: str = INHERIT,
        more: str = "",
    ) -> None:
        self.midturn = midturn
        self.server = server
        self.plan = midturn.root / "plan.md"
        self.plan.write_text("one\ntwo\nthree\n")
        self._environment = {KEYS[wire.provider]: KEY} if wire.provider in KEYS else {}
        midturn.configure(
            f'[assistant]\nmodel.id = "{wire.id}"\n'
            '[conversation.inquiry.assistant]\nmodel.id = "anthropic/claude-haiku-4-5"\n'
            f'[providers.llm.{wire.provider}]\nkind = "{wire.family}"\nbase_url ='
            f' "{server.url}{wire.path}"\n'
            f"[conversation.tools.fs_modify_file.questions.apply_changes.target]\n{target}\n{more}"
        )

    def query(self, *arguments: str) -> Any:
        """Run a detached turn."""
        return self.midturn.run("query", "Patch", "the", "plan", *arguments, **self._environment)

    def watched(self) -> PtySession:
        """Run a turn on a terminal."""
        keys: dict[str, Any] = {**self._environment}
        return self.midturn.on_a_terminal("query", "Patch the plan", **keys)

    def of(self, *types: str) -> list[dict[str, Any]]:
        """Return the recorded events of these types."""
        return [event for event in self.midturn.events() if event["type"] in types]

    @property
    def results(self) -> list[str]:
        """The results of its calls that the main model read."""
        return [event["content"] for event in self.of("tool_call_response")]

    @property
    def answers(self) -> list[tuple[Any, ...]]:
        """The recorded answers: attempt, answer (or why there is none), responder, reason."""
        return [
            (
                event["id"].rpartition(".")[2],
                event.get("answer", event["outcome"]),
                event.get("answered_by", {}).get("by"),
                event.get("reason"),
            )
            for event in self.of("inquiry_response")
        ]

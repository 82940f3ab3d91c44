"""Asker: opencode, whose server our bridge polls. Its questions are choices, and its
permissions get a reply.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from midturn.clock import SYSTEM
from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.opencode import Bridge
from midturn.question.json_value import Json, JsonObject, canonical
from midturn.stores.lock import mark
from support.hooks import until
from support.stories.agents import (
    ENDED,
    OtherAgent,
    choice,
    in_words,
    reply_in_words,
    with_scene_names,
)
from support.stories.outcome import OPEN, Outcome, outcome_of


class _Server:
    """The open requests of opencode."""

    def __init__(self, kind: str, waiting: JsonObject) -> None:
        self.waiting = {kind: [waiting]}
        self.posted: list[Any] = []

    async def get(self, path: str) -> Json:
        return self.waiting.get(path.removeprefix("/"), [])

    async def post(self, path: str, body: JsonObject) -> bool:
        self.waiting = {}
        self.posted.append([path.rpartition("/")[2], body])
        return True


class Opencode(OtherAgent):
    """An agent that waits at its own prompt and at our bridge."""

    async def ask(self) -> str:
        """Run the bridge until the request has a reply and is closed."""
        kind, waiting = self._waiting()
        server: Any = _Server(kind, waiting)
        running = asyncio.create_task(Bridge(server, self._errands, SYSTEM, print).run())
        try:
            await asyncio.to_thread(
                until, lambda: server.posted and not self.store.open_turns_sync(), bool
            )
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        (reply,) = server.posted
        return json.dumps(reply)

    def outcome(self) -> Outcome:
        """Wait until the agent was told something; return the recorded outcome in the words of
        the scene.
        """
        self.end()
        (conversation,) = self.store.ids_sync()
        found = outcome_of(
            with_scene_names(
                self.scene, [event.to_json() for event in self.store.read_sync(conversation).events]
            )
        )
        assert found.end != OPEN
        return Outcome(found.record, (self.told,), found.end)

    @classmethod
    def response(cls, outcome: Outcome, questions: Sequence[Mapping[str, Any]]) -> str:
        """Return what it was told about its questions or its permission request."""
        (words,) = outcome.words
        if not questions:
            return json.dumps(["reply", cls._permitted(outcome, words)])
        if outcome.end == "ended_by_user":
            return json.dumps(["reject", {}])
        answers, *added = words.split("\n")
        given = json.loads(answers)
        if "cancelled" in given:
            return json.dumps(["reply", {"answers": [[reply_in_words(given)] for _ in questions]}])
        labels = [[in_words(given[question["id"]])] for question in questions]
        labels[-1] += added
        return json.dumps(["reply", {"answers": labels}])

    @classmethod
    def _permitted(cls, outcome: Outcome, words: str) -> dict[str, str]:
        if outcome.end == "ended_by_user":
            return {"reply": "reject", "message": ENDED}
        _, state, *_ = outcome.record[-1].split()
        if state == "approved":
            return {"reply": "once"}
        if state == "skipped":
            return {
                "reply": "reject",
                "message": f"The user said no: {json.loads(words.partition('Reason: ')[2])}",
            }
        edited = json.loads(
            outcome.record[-1].removeprefix("run: edited to ").removesuffix(" by user")
        )
        only = (
            "The user allows this call only with other arguments. Call the tool again with exactly"
            " these: "
        )
        return {"reply": "reject", "message": only + canonical(edited).decode()}

    def _waiting(self) -> tuple[str, JsonObject]:
        about: JsonObject = {"id": "one_1", "sessionID": "ses_1"}
        if self.scene.run == "ask":
            return "permission", {
                **about,
                "permission": "deploy",
                "patterns": [],
                "metadata": self.scene.arguments,
            }
        return "question", {**about, "questions": [choice(question) for question in self.scene.ask]}

    def _errands(self, session: str) -> ExternalCallService:
        here = mark(os.getpid())
        return ExternalCallService(
            self.store,
            AskingAgent(
                name="opencode",
                agent="opencode",
                session=session,
                via="hook",
                process=here,
                serves=here,
            ),
            SYSTEM,
        )

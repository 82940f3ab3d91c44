"""Askers: external agents with a hook. Each hook run is a separate process and reads the
answer in the agent's format.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

from msgspec import Struct

import midturn as mt
from midturn.clock import SYSTEM
from midturn.integrations.hooks import hook_agent
from midturn.integrations.hooks.clients import AGENTS
from midturn.integrations.hooks.model_messages import RepliedTo, replied
from midturn.question.answer_type import SelectType
from midturn.question.json_value import canonical
from midturn.stores.lock import mark
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from support.clocks import AdjustableClock
from support.hook_runs import CLAUDE_UNATTENDED, HookRuns
from support.hooks import until
from support.stories.outcome import OPEN, Outcome, outcome_of
from support.stories.people import APPROVALS, StorePerson
from support.stories.scene import ENV, Scene
from support.stories.separate_processes import AskerInProcess, forked

_PATIENCE = 120.0


def reply_in_words(given: Mapping[str, Any]) -> str:
    """Return what an external agent reads of a reply, and of earlier answers. Stories with
    replies ask `where` before.
    """
    before = {ENV["text"]: given["answered"]["env"]} if given["answered"] else {}
    return replied(RepliedTo(given["reply"], before))


class OtherAgent:
    """An agent that asks once and waits. `told` is what it was told."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        self.scene = scene
        self.store = FileStore(directory / "store")
        self.told = ""
        self.waiting = threading.Thread(target=self._wait, daemon=True)

    async def ask(self) -> str:
        """Ask; return the text that came back."""
        raise NotImplementedError

    @classmethod
    def text_read(cls, outcome: Outcome) -> str:
        """Return what this agent reads where midturn's own model would read `outcome.words`."""
        raise NotImplementedError

    def begin(self) -> None:
        """Start to ask, and wait."""
        self.waiting.start()

    def go_on(self) -> None:
        """Do nothing: the agent continues by itself."""

    def again(self) -> None:
        """Do nothing: the agent is waiting and does not ask again."""

    def change(self) -> None:
        """Do nothing: the agent is waiting and does not change its question."""

    def die(self) -> None:
        """Not played: the death and restart of this agent have separate tests."""
        raise NotImplementedError

    begin_in_namespace = end_in_namespace = die

    def outcome(self) -> Outcome:
        """Wait until the agent was told something; return the recorded outcome with what it
        was told.
        """
        self.end()
        (conversation,) = self.store.ids_sync()
        found = outcome_of([event.to_json() for event in self.store.read_sync(conversation).events])
        assert found.end != OPEN
        return Outcome(found.record, (self.told,), found.end)

    def end(self) -> None:
        """Wait until the agent was told something."""
        self.waiting.join(_PATIENCE)
        assert not self.waiting.is_alive()

    def _wait(self) -> None:
        self.told = asyncio.run(self.ask())


class LateResponder(StorePerson):
    """Answers by `store.answer`. A late answer is given after the agent was told something."""

    def __init__(self, asker: OtherAgent) -> None:
        super().__init__(asker.store)
        self.asker = asker

    def refusal(self, id: str) -> str:
        """Answer yes after the agent was told something."""
        self.asker.end()
        return super().refusal(id)

    def tries(self, id: str) -> str:
        """Answer yes before that."""
        return super().refusal(id)


class HookCall(Struct, frozen=True):
    """A call of an agent: the input of its hook, the hook process, and the file with its
    output.
    """

    document: dict[str, Any]
    said: Path
    process: int = 0

    @property
    def told(self) -> str:
        """The output of the hook."""
        return self.said.read_text()


class HookedAgent(AskerInProcess):
    """An agent without a terminal, whose hook asks for a permission or passes on its model's
    questions.

    A run ends at the hook's time limit. The agent is told that the question is still open and
    makes the same call again.
    """

    agent: ClassVar[str]
    event: ClassVar[str] = "PermissionRequest"
    given: ClassVar[str] = "-p"
    asks: ClassVar[str] = "ask_user"
    takes_arguments: ClassVar[bool] = False
    gates_questions: ClassVar[bool] = True

    def __init__(self, scene: Scene, directory: Path) -> None:
        self.scene = scene
        self.directory = directory
        self.own_store = FileStore(directory / "store")
        self.asked = scene.ask
        self.calls: list[HookCall] = []
        self.process_of_agent = 0

    @property
    def store(self) -> FileStore:
        """The store of the user."""
        return self.own_store

    # Actions
    # ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the calls and wait until they are open questions."""
        for questions in (
            (self.scene.ask, self.scene.second) if self.scene.second else (self.scene.ask,)
        ):
            self._ask(questions)

    def go_on(self) -> None:
        """Repeat the calls that nobody has answered, and make the call of a killed process."""
        if not self.calls:
            self.calls.append(self._started(self._call(self.asked)))
        elif self._gates() and self.store.pending_sync():
            call = self.calls.pop()
            os.kill(call.process, signal.SIGUSR1)
            _end(call)
            assert "The question stays open" in call.told
            self._ask(self.asked)

    def again(self) -> None:
        """Withdraw the call, as an interruption by its user does, and make it again."""
        call = self.calls.pop()
        os.kill(call.process, signal.SIGKILL)
        os.waitpid(call.process, 0)
        self._ask(self.asked)

    def change(self) -> None:
        self.asked = self.scene.changed

    def die(self) -> None:
        """Kill the agent. Its hook ends shortly afterwards."""
        super().die()
        until(
            self.store.pending_sync,
            lambda found: all(one.asker and not one.asker.waits for one in found),
        )

    def hold(self) -> None:
        """Run as an agent whose hook waits."""
        self.process_of_agent = os.getpid()
        _end(self._started(self._call(self.asked)))

    def end_in_namespace(self) -> None:
        """Wait until the agent was told something."""
        super().end_in_namespace()
        self.calls.append(self._call(self.asked))

    def stop(self) -> None:
        """End all hooks."""
        for call in filter(lambda call: call.process, self.calls):
            with suppress(ChildProcessError, ProcessLookupError):
                os.kill(call.process, signal.SIGKILL)
                os.waitpid(call.process, 0)

    def outcome(self) -> Outcome:
        """Wait until all hooks have ended; return the recorded outcome in the words of the
        scene, with the hooks' output.
        """
        for call in self.calls:
            _end(call)
        made = [
            [event.to_json() for event in self.store.read_sync(id).events]
            for id in self.store.ids_sync()
        ]
        found = [outcome_of(with_scene_names(self.scene, events)) for events in made]
        assert all(one.end != OPEN for one in found), found
        return Outcome(
            tuple(line for one in found for line in one.record),
            tuple(call.told for call in self.calls),
            found[-1].end,
        )

    # The hook
    # ----------------------------------------------------------------------------------------------

    def _gates(self) -> bool:
        return self.scene.run == "ask" or self.gates_questions

    def _ask(self, questions: Sequence[Mapping[str, Any]]) -> None:
        """Make a call and wait until its hook waits."""
        call = self._started(self._call(questions))
        self.calls.append(call)
        until(
            lambda: [one.asker.process for one in self.store.pending_sync() if one.asker],
            lambda known: mark(call.process) in known,
        )

    def _call(self, questions: Sequence[Mapping[str, Any]]) -> HookCall:
        document = (
            self.permission(called(questions))
            if self.scene.run == "ask"
            else self.question(questions)
        )
        return HookCall(document, self.directory / f"said-{len(self.calls)}")

    def _started(self, call: HookCall) -> HookCall:
        return HookCall(call.document, call.said, forked(lambda: self._hook(call)))

    def _hook(self, call: HookCall) -> None:
        clock = AdjustableClock(SYSTEM)

        async def run() -> Any:
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, clock.advance, _PATIENCE)
            hooks = HookRuns(
                self.store, AGENTS[self.agent], CLAUDE_UNATTENDED, process=mark(os.getpid())
            )
            return await hooks.run(call.document, clock, wait=_PATIENCE)

        with patch.object(hook_agent, "_ancestors", self._above):
            call.said.write_text(json.dumps(asyncio.run(run())))

    def _above(self, _: object) -> Iterator[tuple[int, list[str]]]:
        yield self.process_of_agent, [self.agent, self.given]

    # Input and output of the hook
    # ----------------------------------------------------------------------------------------------

    def permission(self, tool: str) -> dict[str, Any]:
        """Return the hook input for a call that needs a permission."""
        return self.document(tool, self.scene.arguments)

    def question(self, questions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the hook input for questions of the model."""
        return self.document(self.asks, {"questions": [choice(question) for question in questions]})

    def document(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the hook input for a call."""
        call = {"tool_name": tool, "tool_input": arguments}
        return {"hook_event_name": self.event, "session_id": "s1", "cwd": "/", **call}

    @classmethod
    def text_read(cls, outcome: Outcome, questions: Sequence[Mapping[str, Any]] = ()) -> str:
        """Return the hook output for a call that asks questions, or for a permission."""
        (words,) = outcome.words
        if outcome.end == "ended_by_user":
            return json.dumps(cls.ended(asks=bool(questions)))
        if questions:
            answers, *added = words.split("\n")
            given = json.loads(answers)
            if "cancelled" in given:
                return json.dumps(cls.denied(reply_in_words(given), asks=True))
            return json.dumps(cls.answered(questions, given, added))
        return json.dumps(cls._permitted(outcome.record[-1], words))

    @classmethod
    def _permitted(cls, decision: str, words: str) -> Any:
        _, state, *_ = decision.split()
        if state == "approved":
            return cls.allowed()
        if state == "skipped":
            return cls.denied(f"The user said no: {json.loads(words.partition('Reason: ')[2])}")
        edited = json.loads(decision.removeprefix("run: edited to ").removesuffix(" by user"))
        if cls.takes_arguments:
            return cls.allowed(updatedInput=edited)
        only = (
            "The user allows this call only with other arguments. Call the tool again with exactly"
            " these: "
        )
        return cls.denied(only + canonical(edited).decode())

    @classmethod
    def answered(
        cls, questions: Sequence[Mapping[str, Any]], given: Mapping[str, Any], added: Sequence[str]
    ) -> Any:
        """Return the output with the answers. Most agents read it as the reason of a denial."""
        listed = [f"{text} {said}" for text, said in by_text(questions, given, added).items()]
        return cls.denied("\n".join(["The user has answered already:", *listed]), asks=True)

    @classmethod
    def ended(cls, *, asks: bool) -> Any:
        """Return the output that ends the turn."""
        return cls.denied(ENDED, asks=asks)

    @classmethod
    def allowed(cls, **more: Any) -> Any:
        """Return the output that allows the call."""
        return _permission("allow", **more)

    @classmethod
    def denied(cls, message: str, *, asks: bool = False) -> Any:
        """Return the output that denies the call."""
        del asks
        return _permission("deny", message=message)


class Claude(HookedAgent):
    agent = "claude"
    asks = "AskUserQuestion"
    takes_arguments = True

    @classmethod
    def answered(
        cls, questions: Sequence[Mapping[str, Any]], given: Mapping[str, Any], added: Sequence[str]
    ) -> Any:
        """It reads answers by the texts of the questions."""
        asked = [choice(question) for question in questions]
        return cls.allowed(
            updatedInput={"questions": asked, "answers": by_text(questions, given, added)}
        )

    @classmethod
    def ended(cls, *, asks: bool) -> Any:
        """It can be interrupted."""
        del asks
        return _permission("deny", message=ENDED, interrupt=True)


class Codex(HookedAgent):
    """Codex, whose hook runs before each call of `codex exec`."""

    agent, event, given, asks = "codex", "PreToolUse", "exec", "request_user_input"

    @classmethod
    def allowed(cls, **more: Any) -> Any:
        """Empty output allows the call."""
        assert not more

    @classmethod
    def denied(cls, message: str, *, asks: bool = False) -> Any:
        """It has its own format for a denial."""
        del asks
        said = {"permissionDecision": "deny", "permissionDecisionReason": message}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}


class Gemini(HookedAgent):
    """Gemini CLI. Its own dialog also asks its model's questions, after our hook."""

    agent, event = "gemini", "BeforeTool"
    gates_questions = False

    @classmethod
    def allowed(cls, **more: Any) -> Any:
        """Empty output allows the call."""
        assert not more

    @classmethod
    def denied(cls, message: str, *, asks: bool = False) -> Any:
        """It has its own format for a denial."""
        del asks
        return {"decision": "deny", "reason": message}


class Qwen(HookedAgent):
    agent = "qwen"
    asks = "ask_user_question"
    takes_arguments = True


class Copilot(HookedAgent):
    agent = "copilot"

    @classmethod
    def answered(
        cls, questions: Sequence[Mapping[str, Any]], given: Mapping[str, Any], added: Sequence[str]
    ) -> Any:
        """It reads answers by the names that its model gave to the questions."""
        del questions
        return cls.denied(
            "\n".join([f"The user has answered already: {canonical(given).decode()}", *added]),
            asks=True,
        )

    @classmethod
    def allowed(cls, **more: Any) -> Any:
        """The decision is not nested."""
        return {"behavior": "allow", **more}

    @classmethod
    def denied(cls, message: str, *, asks: bool = False) -> Any:
        """The decision is not nested. A question has other keys."""
        if asks:
            return {"permissionDecision": "deny", "permissionDecisionReason": message}
        return {"behavior": "deny", "message": message}

    def permission(self, tool: str) -> dict[str, Any]:
        """It has other keys."""
        return {
            "hookName": "permissionRequest",
            "sessionId": "s1",
            "toolName": tool,
            "toolInput": self.scene.arguments,
        }

    def question(self, questions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Its questions are a schema."""
        properties = {question["id"]: _property(question) for question in questions}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        return {
            "sessionId": "s1",
            "toolName": self.asks,
            "toolArgs": {"message": "It asks.", "requestedSchema": schema},
        }


def called(changed: Sequence[Mapping[str, Any]]) -> str:
    """Return the tool of a call that needs a permission: another tool if the question was
    changed.
    """
    return "rollback" if changed else "deploy"


def with_scene_names(scene: Scene, events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the events with the scene's question names, and with a yes as a boolean."""
    known = {question["text"]: question for question in (*scene.ask, *scene.changed, *scene.second)}
    asked: dict[str, Mapping[str, Any]] = {}
    found: list[Mapping[str, Any]] = []
    for event in events:
        if event["type"] == "inquiry_request":
            asked[event["id"]] = known[event["question"]["text"]]
            found.append({**event, "question_id": asked[event["id"]]["id"]})
        elif event["type"] == "inquiry_response" and event.get("answer") in _YES_OR_NO:
            found.append({**event, "answer": event["answer"] == "Yes"})
        else:
            found.append(event)
    return found


class OptionChooser(StorePerson):
    """Answers by `store.answer`. The agent names its questions itself, and offers yes and no
    as options.
    """

    def __init__(self, store: ConversationStore, user: str | None, scene: Scene) -> None:
        super().__init__(store, user)
        self.scene = scene

    def find(self, question: str) -> mt.OpenQuestion:
        """Wait until a question is open; find it by its text."""
        if question in APPROVALS:
            return super().find(question)
        texts = [
            asked["text"]
            for asked in (*self.scene.ask, *self.scene.changed, *self.scene.second)
            if asked["id"] == question
        ]

        def look() -> list[mt.OpenQuestion]:
            return [found for found in self.store.pending_sync() if found.question.text in texts]

        return until(look, bool)[0]

    def refusal(self, id: str) -> str:
        question = next((found for found in self.store.pending_sync() if found.id == id), None)
        try:
            (
                self.send(question, value=True)
                if question
                else asyncio.run(self.store.answer(id, True, user=self.user))
            )
        except mt.MidturnError as error:
            return str(error)
        return ""

    def send(self, question: mt.OpenQuestion, **said: Any) -> None:
        """Answer. If the options are yes and no, choose one of them."""
        if isinstance(said.get("value"), bool) and isinstance(
            question.question.answer_type, SelectType
        ):
            said["value"] = _YES_OR_NO[not said["value"]]
        super().send(question, **said)


ENDED = "The user ended the turn. Stop here."
_YES_OR_NO = ("Yes", "No")


def in_words(value: Any) -> str:
    """Return an answer as an agent reads it that asks for choices."""
    return _YES_OR_NO[not value] if isinstance(value, bool) else str(value)


def by_text(
    questions: Sequence[Mapping[str, Any]], given: Mapping[str, Any], added: Sequence[str]
) -> dict[str, str]:
    """Return answers by the texts of their questions. A note follows the last one."""
    said = {question["text"]: in_words(given[question["id"]]) for question in questions}
    said[questions[-1]["text"]] += "".join(f" ({words})" for words in added)
    return said


def choice(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question as most agents ask it: a choice, or a text if it has no options."""
    kind = question["answer_type"]
    options = {"boolean": _YES_OR_NO, "select": kind.get("options", ())}.get(kind["type"], ())
    return {"question": question["text"], "options": [{"label": label} for label in options]}


def _property(question: Mapping[str, Any]) -> dict[str, Any]:
    kind = question["answer_type"]
    typed = {
        "boolean": {"type": "boolean"},
        "select": {"type": "string", "enum": kind.get("options")},
        "text": {"type": "string"},
    }
    return {"title": question["text"], **typed[kind["type"]]}


def _end(call: HookCall) -> None:
    """Wait for the end of a hook."""
    if call.process:
        assert os.waitstatus_to_exitcode(os.waitpid(call.process, 0)[1]) == 0


def _permission(behavior: str, **said: Any) -> Any:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PermissionRequest",
            "decision": {"behavior": behavior, **said},
        }
    }

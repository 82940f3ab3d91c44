"""The interfaces through which Ana decides a call.

Each action returns the text that Ana is shown. The log shows which decisions counted.
"""

from __future__ import annotations

import asyncio
import html
import json
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

from starlette.testclient import TestClient

import midturn as mt
from midturn.channels.card_reconciler import CardReconciler
from midturn.channels.state import ChannelState
from midturn.clock import now
from midturn.web import inbox
from support.channels.phones import act, missing
from support.cli import CommandLine
from support.decisions.scene import AskedCall, Call, CallOfAnotherAgent, ConfiguredCall
from support.form_person import FormPerson
from support.hooks import HookProcess, Session, until
from support.mcp_clients import LEGACY, connected
from support.pages import OWN, browsing
from support.pty_session import PtySession
from support.stories.askers import (
    ForeignLoop,
    InquirerLoop,
    LanggraphLoop,
    OpenaiLoop,
    PydanticLoop,
)
from support.stories.mcp_interfaces import ConnectedClient
from support.stories.people import Waiting
from support.stories.phone_person import PhonePerson, with_phone
from support.stories.protocol_clients import A2aTask, AguiThread, a2a_answer, agui_entry

ANA = "ana"
NO_EDIT = "messages cannot edit arguments; use the page or a terminal"
NOT_SENT = "messages go only to people who may decide"
NO_NAMES = (
    "an ntfy topic does not identify people, so approvals that are restricted to certain people are"
    " not sent to it"
)
NO_REASSIGNMENT = "this interface cannot reassign questions"
NO_KEYS = "this interface has no keyboard input"
OWN_TASK = "a client may cancel its own task, like the user of a chat"
OWNER = "the owner of a local store may end every turn in it"


class Interface:
    """A way to decide a call. `lacks` contains, by rule, the reason why the rule does not apply.

    Each action returns the text that ana is shown.
    """

    name: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}
    part: ClassVar[str] = ""

    def __init__(self, closing: ExitStack, directory: Path) -> None:
        self.closing = closing
        self.directory = directory
        self.call: Call

    @staticmethod
    def missing() -> str:
        """Return why this machine cannot run the cells, or an empty string if it can."""
        return ""

    def begin(self, env: str) -> None:
        """Start the call and open the interface."""
        self.call = Call(self.directory, env)
        self.call.begin()

    def look(self) -> None:
        """Read the call as it is now."""
        self.seen = self.call.question()

    def yes(self) -> str:
        """Approve the call that was read."""
        raise NotImplementedError

    def edit(self, env: str) -> str:
        """Approve the call with other arguments."""
        raise NotImplementedError

    def end(self) -> str:
        """End the turn."""
        raise NotImplementedError

    def reassign(self, to: str) -> str:
        """Reassign the question to another person."""
        raise NotImplementedError

    def paste(self, text: str) -> None:
        """Paste text at the prompt."""
        raise NotImplementedError


class Library(Interface):
    """A program answers in its store."""

    name = "library"
    lacks: ClassVar[Mapping[str, str]] = {"paste": NO_KEYS}

    def _answer(self, **said: Any) -> str:
        try:
            asyncio.run(
                self.call.store.answer(self.seen.id, user=ANA, digest=self.seen.digest, **said)
            )
        except mt.MidturnError as error:
            return str(error)
        return ""

    def yes(self) -> str:
        return self._answer(approve=True)

    def edit(self, env: str) -> str:
        return self._answer(arguments={"say": env})

    def end(self) -> str:
        return self._answer(cancel=True)

    def reassign(self, to: str) -> str:
        try:
            asyncio.run(self.call.store.reassign(self.seen.id, [to], user=ANA))
        except mt.MidturnError as error:
            return str(error)
        return ""


class Api(Interface):
    """A program answers through the HTTP API."""

    name = "HTTP API"
    lacks: ClassVar[Mapping[str, str]] = {"paste": NO_KEYS}

    def begin(self, env: str) -> None:
        """Start the call and serve the store."""
        super().begin(env)
        self.client: TestClient = self.closing.enter_context(
            browsing(inbox(self.call.store, user=lambda _: ANA))
        )

    def _post(self, **said: Any) -> str:
        sent = self.client.post(
            f"/api/questions/{self.seen.id}/answer", json={"about": self.seen.digest, **said}
        )
        return "" if sent.status_code == 200 else sent.text

    def yes(self) -> str:
        return self._post(approve=True)

    def edit(self, env: str) -> str:
        return self._post(arguments={"say": env})

    def end(self) -> str:
        return self._post(cancel=True)

    def reassign(self, to: str) -> str:
        sent = self.client.post(f"/api/questions/{self.seen.id}/pass-on", json={"to": [to]})
        return "" if sent.status_code == 200 else sent.text


class Page(Api):
    """A person answers on the page."""

    name = "page"

    def look(self) -> None:
        """Load the page. Its form contains the digest of what it shows."""
        super().look()
        shown = self.client.get(f"/q/{self.seen.id}").text
        self.fields = _hidden_fields(shown)

    def _post(self, **said: Any) -> str:
        sent = self.client.post(f"/q/{self.seen.id}", data={**self.fields, **said}, headers=OWN)
        return "" if sent.status_code == 303 else html.unescape(sent.text)

    def yes(self) -> str:
        return self._post(act="approve")

    def edit(self, env: str) -> str:
        return self._post(act="edit", edited=json.dumps({"say": env}))

    def end(self) -> str:
        return self._post(act="end")

    def reassign(self, to: str) -> str:
        return self._post(act="pass", to=to)


def _hidden_fields(shown: str) -> dict[str, str]:
    """Return the hidden fields of a page."""
    import re

    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', shown)
    return {
        name: html.unescape(value) for name, value in found if name in ("about", "digest", "walk")
    }


class Command(Interface):
    """A person answers with a command."""

    name = "`midturn answer ID VALUE`"
    lacks: ClassVar[Mapping[str, str]] = {"paste": NO_KEYS, "ineligible end": OWNER}

    def begin(self, env: str) -> None:
        """Start a turn of the configured assistant that makes the call."""
        self.call = ConfiguredCall(self.directory, env)
        self.call.begin()

    @property
    def user(self) -> CommandLine:
        """Ana's command line."""
        assert isinstance(self.call, ConfiguredCall)
        return self.call.user

    def _run(self, *words: str) -> str:
        finished = self.user.run("answer", self.seen.id, *words)
        return "" if finished.status == 0 else finished.stderr

    def yes(self) -> str:
        """Answer with the digest that was seen."""
        return self._run("yes", *(["--digest", self.seen.digest[:12]] if self.seen.digest else []))

    def edit(self, env: str) -> str:
        return self._run(
            json.dumps({"edit": {"say": env}}),
            *(["--digest", self.seen.digest[:12]] if self.seen.digest else []),
        )

    def end(self) -> str:
        return self._run("--cancel")

    def reassign(self, to: str) -> str:
        return self._run("--pass-to", to)


class Program(Interface):
    """A program shows prompts to ana."""

    name = "`Prompter` in a program"
    lacks: ClassVar[Mapping[str, str]] = {"paste": NO_KEYS, "reassignment": NO_REASSIGNMENT}

    def begin(self, env: str) -> None:
        """Run the turn in a thread."""
        self.prompter = Waiting()
        self.prompter.user = ANA
        self.call = Call(self.directory, env, self.prompter)
        self.running = threading.Thread(target=self.call.begin, daemon=True)
        self.running.start()
        until(lambda: self.prompter.dialogs.shown or self._is_asked_of_others(), bool)

    def _is_asked_of_others(self) -> bool:
        whose = [question.whose for question in self.call.store.pending_sync()]
        return any(
            one is not None and one.eligible is not None and ANA not in one.eligible
            for one in whose
        )

    def _reply(self, reply: mt.Reply) -> str:
        """Reply to the newest dialog. A question for other people opens no dialog, and the turn
        waits for them.
        """

        def is_settled() -> bool:
            return not self.running.is_alive() or any(
                not replied.done() for _, replied in self.prompter.dialogs.shown
            )

        until(is_settled, bool)
        open_ = [
            (prompt, replied)
            for prompt, replied in self.prompter.dialogs.shown
            if not replied.done()
        ]
        if not open_:
            return "no prompt is open for her"
        open_[-1][1].set_result(reply)
        shown = self.prompter.dialogs.shown
        until(lambda: not self.running.is_alive() or open_[-1][1] is not shown[-1][1], bool)
        return "" if open_[-1][1] is shown[-1][1] else f"asked again: {shown[-1][0].error}"

    def look(self) -> None:
        self.dialog = self.prompter.dialogs.shown[-1][1] if self.prompter.dialogs.shown else None

    def yes(self) -> str:
        """Reply to the dialog that was read, if it is still open."""
        if self.dialog is not None and self.dialog.cancelled():
            return "the prompt was closed, because the call was edited"
        return self._reply(mt.Answered(value=True))

    def edit(self, env: str) -> str:
        return self._reply(mt.Edited({"say": env}))

    def end(self) -> str:
        return self._reply(mt.EndedTurn())


class AnswerAtTerminal(Command):
    """A person is asked at a terminal by `midturn answer ID`."""

    name = "`midturn answer ID` at a terminal, plain"
    lacks: ClassVar[Mapping[str, str]] = {"ineligible end": OWNER, "reassignment": NO_REASSIGNMENT}
    plain: ClassVar[bool] = True

    def look(self) -> None:
        """Start the command and wait for the prompt, or for the message that no prompt is shown."""
        super().look()
        self.session = self._sat_down()
        self.closing.callback(self.session.hang_up)
        self.person = FormPerson(self.session, plain=self.plain)
        while not self.person.is_asked("Run deploy?"):
            if not self.session.read():
                break

    def _sat_down(self) -> PtySession:
        return self.user.on_a_terminal("answer", self.seen.id, plain=self.plain, size=(100, 40))

    def _keys(self, *keys: str) -> str:
        """Press keys at the prompt. If they do not submit a decision, return the shown text."""
        if not self.person.is_asked("Run deploy?"):
            return self.session.text
        before = len(self.call.events)
        self.person.press(keys[0])
        for more in keys[1:]:
            self.session.wait_until(
                lambda: any(word in self.person.new for word in _MORE), "what comes after a key"
            )
            self.person.press(more)
        while (
            self.session.read()
            and len(self.call.events) == before
            and "again" not in self.person.new
        ):
            pass
        return "" if len(self.call.events) > before else self.session.text

    def yes(self) -> str:
        return self._keys("y\r" if self.plain else "y")

    def edit(self, env: str) -> str:
        """Press e and type JSON."""
        return self._keys("e\r", ":j\r", json.dumps({"say": env}) + "\r")

    def paste(self, text: str) -> None:
        """Write the text at once, as a terminal without bracketed paste does, and wait for the
        prompt's message.
        """
        seen = len(self.session.raw)
        self.session.send(text.encode())
        said = ("That looked like pasted text", "Several lines arrived at once")
        self.session.wait_until(
            lambda: any(
                line in self.session.raw[seen:].decode("utf-8", "replace") for line in said
            ),
            "the line about pasted text",
        )


_MORE = ("Your reply", "Why", "The reason", "Enter submits", "Type the new")


class AnswerAtRichTerminal(AnswerAtTerminal):
    """The same with rich prompts."""

    name = "`midturn answer ID` at a terminal, rich"
    lacks: ClassVar[Mapping[str, str]] = {
        **AnswerAtTerminal.lacks,
        "edit": "arguments are edited in an external text editor; see the row above",
    }
    plain = False


class AttachedTerminal(AnswerAtTerminal):
    """The turn runs at ana's terminal."""

    name = "terminal that runs the turn"
    lacks: ClassVar[Mapping[str, str]] = {
        "stale approval": "the prompt is redrawn with the edited call",
        "ineligible end": "the person has no prompt for the question",
        "reassignment": NO_REASSIGNMENT,
    }

    def begin(self, env: str) -> None:
        """Do nothing: the turn starts in `look`."""
        self.call = ConfiguredCall(self.directory, env)

    def look(self) -> None:
        """Run the turn."""
        assert isinstance(self.call, ConfiguredCall)
        self.session = self.user.on_a_terminal(
            "query", "-m", self.call.script, "Go", plain=self.plain, size=(100, 40)
        )
        self.closing.callback(self.session.hang_up)
        self.person = FormPerson(self.session, plain=self.plain)
        while not self.person.is_asked("Run deploy?"):
            if not self.session.read():
                break

    def yes(self) -> str:
        """Press y and wait until the command has ended."""
        told = super().yes()
        self.session.wait_for_end()
        return told

    def edit(self, env: str) -> str:
        """Press e, type JSON, and wait until the command has ended."""
        told = super().edit(env)
        self.session.wait_for_end()
        return told


class McpPermission(Command):
    """An agent asks for permission through `midturn mcp`, and Ana decides with a command."""

    name = "permission tool of `midturn mcp`"

    def begin(self, env: str) -> None:
        """Call the tool, and wait until its question is open."""
        call = CallOfAnotherAgent(self.directory, env, "claude")
        self.call = call
        talk = ConnectedClient(
            lambda: connected(call.user, "--store", call.address, name="claude-code", era=LEGACY)
        )
        self.closing.callback(talk.leave)
        self.told = talk.call(
            "permission_prompt", {"tool_name": "deploy", "input": {"say": env}, "tool_use_id": "t1"}
        )
        self.closing.callback(self.told.cancel)
        until(call.store.pending_sync, bool)


class ClaudeHook(Command):
    """A call of Claude Code, whose hook waits for the decision. Ana decides with a command."""

    name = "Hook for Claude Code"
    lacks: ClassVar[Mapping[str, str]] = {"paste": NO_KEYS, "ineligible end": OWNER}

    def begin(self, env: str) -> None:
        """Start the hook."""
        self.call = call = CallOfAnotherAgent(self.directory, env, "claude")
        session = Session(call.user, "claude", CLAUDE_CODE_SESSION_ATTENDED="0")
        hook = session.start("PermissionRequest", tool_name="deploy", tool_input={"say": env})
        self.closing.callback(_end, hook)
        self.hook = hook
        until(lambda: call.user.ok("inbox", "--json").json, bool)


def _end(hook: HookProcess) -> None:
    """Wait for a hook to end, even if it has ended already, and read its output."""
    try:
        hook.kill()
    except ProcessLookupError:
        hook.process.communicate(timeout=120)


class Adapter(Library):
    """A tool of another framework asks, and ana answers in the store."""

    lacks: ClassVar[Mapping[str, str]] = {
        "edit": "the tool asks a question, which has no arguments",
        "stale approval": "the tool asks a question, which cannot be edited",
        "paste": NO_KEYS,
    }
    loop: ClassVar[type[ForeignLoop]] = InquirerLoop
    name = "`Inquirer`"

    def begin(self, env: str) -> None:
        """Run the framework's loop until it makes the call."""
        self.call = AskedCall(self.directory, env, self.loop)
        self.call.begin()

    def yes(self) -> str:
        """Answer the question."""
        return self._answer(value=True)


class PydanticAi(Adapter):
    name = "pydantic-ai"
    loop = PydanticLoop


class Langgraph(Adapter):
    name = "LangGraph"
    loop = LanggraphLoop


class OpenaiAgents(Adapter):
    name = "OpenAI Agents SDK"
    loop = OpenaiLoop


class AguiFrontEnd(Interface):
    """Ana answers in a front end that speaks AG-UI."""

    name = "front end with AG-UI"
    lacks: ClassVar[Mapping[str, str]] = {"reassignment": NO_REASSIGNMENT, "paste": NO_KEYS}

    def begin(self, env: str) -> None:
        """Let the front end start the turn."""
        self.call = Call(self.directory, env)
        self.thread = AguiThread(lambda: self.call.agent, ANA)
        self.thread.say("Go")
        self.call.conversation = self.thread.conversation

    def look(self) -> None:
        """Read the interrupt. Its ID contains the digest of the call that is shown."""
        super().look()
        self.interrupt = self.thread.interrupt(self.seen.id)

    def _send(self, **said: Any) -> str:
        return self.thread.send(agui_entry(self.interrupt, said))

    def yes(self) -> str:
        return self._send(approve=True)

    def edit(self, env: str) -> str:
        return self._send(arguments={"say": env})

    def end(self) -> str:
        return self._send(cancel=True)


class A2aClient(Interface):
    """A client that speaks A2A answers for ana."""

    name = "client with A2A"
    lacks: ClassVar[Mapping[str, str]] = {
        "ineligible end": OWN_TASK,
        "reassignment": NO_REASSIGNMENT,
        "paste": NO_KEYS,
    }

    def begin(self, env: str) -> None:
        """Let the client start the task."""
        self.call = Call(self.directory, env)
        self.task = A2aTask(lambda: self.call.agent, ANA)
        self.task.say("Go")
        self.call.conversation = self.task.conversation

    def _send(self, **said: Any) -> str:
        return self.task.send(self.seen.id, a2a_answer(said, self.seen.digest))

    def yes(self) -> str:
        return self._send(approve=True)

    def edit(self, env: str) -> str:
        return self._send(arguments={"say": env})


class ChannelInterface(Interface):
    """Ana answers on her phone."""

    kind: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {
        "edit": NO_EDIT,
        "ineligible voter": NOT_SENT,
        "ineligible end": NOT_SENT,
        "reassignment": NO_REASSIGNMENT,
        "paste": NO_KEYS,
    }

    def begin(self, env: str) -> None:
        """Run the channel on the store."""
        super().begin(env)
        self.person: PhonePerson = self.closing.enter_context(
            with_phone(self.kind, self.call.store)
        )

    def look(self) -> None:
        """Wait for the card, then hold back its updates, as a platform's rate limit does."""
        super().look()
        self.card = until(
            lambda: [card for card in self.person.on.phone.cards() if card.is_open], bool
        )[-1]
        until(lambda: self.person.on.do(self._is_known()), bool)
        held, reconcile = threading.Event(), CardReconciler.reconcile
        self.release = held.set

        async def held_back(deck: CardReconciler, id: str) -> None:
            while not held.is_set():  # noqa: ASYNC110  another thread sets it
                await asyncio.sleep(0.01)
            await reconcile(deck, id)

        self.closing.enter_context(patch.object(CardReconciler, "reconcile", held_back))
        self.closing.callback(held.set)

    async def _is_known(self) -> bool:
        cards = await ChannelState(self.call.store.port, now).cards("phone")
        return any(card.there and card.there == card.about for card in cards.values())

    def yes(self) -> str:
        """Press the button of the card that was read, or write its label."""
        before = self.person.on.phone.cards()
        label = next((label for label in self.card.buttons if label in ("Allow", "Yes")), "yes")
        self.person.on.do(act(self.person.on.phone, self.card, label))
        self.release()
        changed = until(
            lambda: [card for card in self.person.on.phone.cards() if card not in before], bool
        )
        return "" if ANA in self.call.votes else changed[-1].text


def _channel(kind: str, part: str = "", **more: str) -> type[ChannelInterface]:
    """Return the interface of a channel."""

    class Made(ChannelInterface):
        name = {"email": "e-mail", "ntfy": "ntfy"}.get(kind, kind.capitalize())
        lacks: ClassVar[Mapping[str, str]] = {**ChannelInterface.lacks, **more}

        @staticmethod
        def missing() -> str:
            return missing(kind)

    Made.kind = kind
    Made.part = part
    return Made


INTERFACES: tuple[type[Interface], ...] = (
    Library,
    Program,
    Command,
    AnswerAtTerminal,
    AnswerAtRichTerminal,
    AttachedTerminal,
    Page,
    Api,
    _channel("telegram"),
    _channel("slack"),
    _channel("discord"),
    _channel("ntfy", **{"stale approval": NO_NAMES, "duplicate identity": NO_NAMES}),
    _channel("email", "channels"),
    _channel("matrix", "channels"),
    ClaudeHook,
    McpPermission,
    AguiFrontEnd,
    A2aClient,
    Adapter,
    PydanticAi,
    Langgraph,
    OpenaiAgents,
)

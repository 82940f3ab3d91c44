"""A front end that speaks AG-UI and a client that speaks A2A: they begin the turn of a program's
agent, and their user answers in them.

The server is started again for each request. So no story depends on the memory of a server.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import midturn as mt
from midturn.integrations.agui.thread_run import thread_key
from midturn.stores.store import ConversationStore
from support import a2a, agui
from support.stories.assistants import Program
from support.stories.people import OutsidePerson
from support.stories.scene import Scene

T = TypeVar("T")


class AguiThread:
    """A front end with one thread of a user.

    Args:
        agent: Returns the agent that is served.
        user: The user of the front end.
    """

    def __init__(self, agent: Callable[[], mt.Agent], user: str) -> None:
        self._agent = agent
        self._user = user
        self._front_end: agui.FrontEnd | None = None

    @property
    def conversation(self) -> str:
        """ID of the conversation of the thread."""
        store = self._agent().store
        found = asyncio.run(store.find(thread_key(self._user, "t1")))
        assert found is not None
        return found

    def say(self, text: str) -> agui.Run:
        """Send a message."""
        return self._request(lambda front_end: front_end.say(text))

    def look(self) -> list[agui.Event]:
        """Return the interrupts of the thread."""
        return self._request(lambda front_end: front_end.run()).interrupts

    def interrupt(self, address: str) -> agui.Event:
        """Return the interrupt for a question."""
        return next(
            each for each in self.look() if each["metadata"]["midturn"]["address"] == address
        )

    def send(self, *entries: agui.Event) -> str:
        """Send entries. Return the first reason why an entry was not taken; empty if all were."""
        run = self._request(lambda front_end: front_end.resume(*entries))
        return str(run.not_taken[0]["text"]) if run.not_taken else ""

    def _request(self, send: Callable[[agui.FrontEnd], Awaitable[T]]) -> T:
        async def work() -> T:
            async with agui.serving(self._agent(), secrets=True) as client:
                if self._front_end is None:
                    self._front_end = agui.FrontEnd(client, user=self._user)
                self._front_end.client = client
                return await send(self._front_end)

        return asyncio.run(work())


def agui_entry(
    interrupt: agui.Event | str, said: Mapping[str, Any], question: str | None = None
) -> agui.Event:
    """Return the entry of a front end for the arguments of `store.answer`.

    Args:
        interrupt: The interrupt.
        said: The arguments.
        question: ID of the question, if it belongs to a form.
    """
    if "cancel" in said:
        return agui.cancelled(interrupt, endTurn=True)
    if "reply" in said:
        return agui.cancelled(interrupt, reply=said["reply"], decline=True)
    payload = _payload(said)
    if question and "answer" in payload:
        payload = {question: payload["answer"]}
    return agui.resolved(interrupt, payload)


def _payload(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of both protocols for the arguments of `store.answer`."""
    payload: dict[str, Any]
    match said:
        case {"approve": yes}:
            payload = {"approved": yes}
        case {"arguments": edited}:
            payload = {"approved": True, "editedArgs": edited}
        case {"content": edited}:
            payload = {"approved": True, "editedContent": edited}
        case {"back": True}:
            payload = {"back": True}
        case _:
            payload = {"answer": said["value"]}
    return {**payload, "reason": said["reason"]} if said.get("reason") else payload


class A2aTask:
    """A client with one task, which uses the extension for structured questions.

    Args:
        agent: Returns the agent that is served.
        user: The person for whom the client acts.
    """

    def __init__(self, agent: Callable[[], mt.Agent], user: str) -> None:
        self._agent = agent
        self._user = user
        self._peer: a2a.Peer | None = None
        self._task: a2a.Json = {}

    @property
    def conversation(self) -> str:
        """ID of the conversation of the task."""
        return str(self._task["contextId"])

    def say(self, text: str) -> None:
        """Start the task with a message."""
        self._task = self._request(lambda peer: peer.send(text))

    def follow(self) -> None:
        """Find the task that another process has started."""
        (self._task,) = self._request(lambda peer: peer.call("ListTasks"))["tasks"]

    def look(self) -> list[a2a.Json]:
        """Return the structured questions of the task."""
        return a2a.questions(self._request(lambda peer: peer.get(self._task)))

    def send(self, address: str, answer: Mapping[str, Any]) -> str:
        """Send an answer. Return the reason why it was not recorded; empty if it was."""
        part = a2a.answers(**{address: dict(answer)})
        try:
            task = self._request(lambda peer: peer.answer(self._task, part))
        except a2a.RpcError as error:
            return error.message
        asked = (
            {each["id"]: each for each in a2a.questions(task)}
            if "message" in task["status"]
            else {}
        )
        if address in asked:
            return str(asked[address].get("problem", ""))
        return " ".join(text for text in _status_texts(task) if address in text)

    def _person(self, principal: str) -> str:
        del principal
        return self._user

    def cancel(self) -> str:
        """Cancel the task. Return the error; empty if it is cancelled."""
        try:
            self._request(lambda peer: peer.call("CancelTask", id=self._task["id"]))
        except a2a.RpcError as error:
            return error.message
        return ""

    def _request(self, send: Callable[[a2a.Peer], Awaitable[T]]) -> T:
        async def work() -> T:
            async with a2a.serving(self._agent(), people=self._person) as client:
                if self._peer is None:
                    self._peer = a2a.Peer(client, has_extension=True, prefix=f"{os.getpid()}-")
                self._peer.client = client
                return await send(self._peer)

        return asyncio.run(work())


def _status_texts(task: a2a.Json) -> list[str]:
    return a2a.texts(task) if "message" in task["status"] else []


def a2a_answer(said: Mapping[str, Any], digest: str | None) -> dict[str, Any]:
    """Return the structured answer for the arguments of `store.answer`."""
    if "reply" in said:
        return {"reply": said["reply"]}
    return {**_payload(said), **({"digest": digest} if digest else {})}


# In the stories
# --------------------------------------------------------------------------------------------------


Client = TypeVar("Client", AguiThread, A2aTask)


class ServedProgram(Program, Generic[Client]):
    """An agent of a program whose turn is begun by a client."""

    client: Client

    def begin(self) -> None:
        """Send the message."""
        self.client.say("Go")
        self.conversation = self.client.conversation

    def hold(self) -> None:
        """Send the message, and keep the server running."""
        self.begin()
        signal.pause()


class AguiProgram(ServedProgram[AguiThread]):
    """An agent that is served over AG-UI."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(scene, directory)
        self.client = AguiThread(lambda: self.agent, "ada")

    def held(self) -> None:
        self.conversation = self.client.conversation


class A2aProgram(ServedProgram[A2aTask]):
    """An agent that is served over A2A."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(scene, directory)
        self.client = A2aTask(lambda: self.agent, "ada")

    def held(self) -> None:
        self.client.follow()
        self.conversation = self.client.conversation


class AguiPerson(OutsidePerson):
    """Answers in a front end. Each entry is sent with a run, which continues the turn."""

    def __init__(self, store: ConversationStore, thread: AguiThread) -> None:
        super().__init__(store)
        self.thread = thread

    def send(self, question: mt.OpenQuestion, **said: Any) -> None:
        interrupt = self.thread.interrupt(question.id)
        of_form = question.question_id if question.form and question.kind == "tool" else None
        told = self.thread.send(agui_entry(interrupt, said, of_form))
        assert not told or of_form, told  # the questions of the form that were not answered

    def refusal(self, id: str) -> str:
        return self.thread.send(agui.resolved(id, {"answer": True}))


class A2aPerson(OutsidePerson):
    """Answers as a client that acts for a person."""

    def __init__(self, store: ConversationStore, task: A2aTask) -> None:
        super().__init__(store)
        self.task = task

    def send(self, question: mt.OpenQuestion, **said: Any) -> None:
        if said.get("cancel"):
            self.task.cancel()
            return
        told = self.task.send(question.id, a2a_answer(said, question.digest))
        assert not told, told

    def refusal(self, id: str) -> str:
        return self.task.send(id, {"answer": True})

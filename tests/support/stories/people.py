"""People who answer while the asker does not wait for them. Each finds open questions in a
store and answers through one interface.
"""

from __future__ import annotations

import asyncio
import html
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from starlette.testclient import TestClient

import midturn as mt
from midturn.stores.store import ConversationStore
from support.cli import CommandLine
from support.hooks import until
from support.pages import OWN, carried
from support.stories.outcome import Outcome
from support.stories.scene import Asker, Pair

APPROVALS = ("run", "deliver", "review")


class OutsidePerson:
    """Finds open questions; subclasses answer them in `send`."""

    def __init__(self, store: ConversationStore) -> None:
        self.store = store

    def find(self, question: str) -> mt.OpenQuestion:
        """Wait until a question is open. Approvals are found by their kind."""
        id = f"__{question}__" if question in APPROVALS else question

        def look() -> list[mt.OpenQuestion]:
            return [found for found in self.store.pending_sync() if found.question_id == id]

        return until(look, bool)[0]

    def send(self, question: mt.OpenQuestion, **said: Any) -> None:
        """Answer a question; `said` are the arguments of `store.answer`."""
        raise NotImplementedError

    def answer(self, question: str, value: Any, reason: str | None = None) -> None:
        self.send(
            self.find(question), value=value, **({} if reason is None else {"reason": reason})
        )

    def reply(self, question: str, words: str) -> None:
        self.send(self.find(question), reply=words)

    def back(self, question: str) -> None:
        self.send(self.find(question), back=True)

    def end_turn(self, question: str) -> None:
        self.send(self.find(question), cancel=True)

    def allow(self, kind: str) -> None:
        self.send(self.find(kind), approve=True)

    def refuse(self, kind: str, reason: str) -> None:
        self.send(self.find(kind), approve=False, reason=reason)

    def edit(self, kind: str, value: Any) -> None:
        self.send(self.find(kind), **{"arguments" if kind == "run" else "content": value})

    def refusal(self, id: str) -> str:
        """Answer yes to a closed question; return the refusal."""
        raise NotImplementedError

    def tries(self, id: str) -> str:
        """Answer yes right away; return the refusal. By default the same as `refusal`."""
        return self.refusal(id)

    def leave(self) -> None:
        """Do nothing: no process waits for this person."""

    def return_(self) -> None: ...


class StorePerson(OutsidePerson):
    """Answers by `store.answer`."""

    def __init__(self, store: ConversationStore, user: str | None = None) -> None:
        super().__init__(store)
        self.user = user

    def send(self, question: mt.OpenQuestion, **said: Any) -> None:
        asyncio.run(self.store.answer(question.id, **said, user=self.user, digest=question.digest))

    def refusal(self, id: str) -> str:
        try:
            asyncio.run(self.store.answer(id, True, user=self.user))
        except mt.MidturnError as error:
            return str(error)
        return ""


def another(pair: Pair, user: str | None = None) -> StorePerson:
    """Return another person, who answers by `store.answer`."""
    return (pair.others or StorePerson)(pair.asker.store, user)


class ApiPerson(OutsidePerson):
    """Answers by the API of the page."""

    def __init__(self, store: ConversationStore, client: TestClient) -> None:
        super().__init__(store)
        self.client = client

    def send(self, question: mt.OpenQuestion, **said: Any) -> None:
        seen = {"digest": question.digest} if question.digest else {}
        sent = self.client.post(f"/api/questions/{question.id}/answer", json={**said, **seen})
        assert sent.status_code == 200, sent.text

    def refusal(self, id: str) -> str:
        return self.client.post(f"/api/questions/{id}/answer", json={"value": True}).text


class StepwisePerson(OutsidePerson):
    """Answers where a form is filled in step by step before any of it is recorded."""

    def find(self, question: str) -> mt.OpenQuestion:
        """Wait until the question, or another question of its form, is open."""
        id = f"__{question}__" if question in APPROVALS else question

        def look() -> list[mt.OpenQuestion]:
            return [
                found
                for found in self.store.pending_sync()
                if id == found.question_id or id in _of_form(found)
            ]

        return until(look, bool)[0]


class PagePerson(StepwisePerson):
    """Answers on the page of a question, by its forms and without a script."""

    def __init__(self, store: ConversationStore, client: TestClient) -> None:
        super().__init__(store)
        self.client = client
        self.walk = ""

    def answer(self, question: str, value: Any, reason: str | None = None) -> None:
        found = self.find(question)
        given = {} if reason is None else {"reason": reason}
        self.send(found, value=_control(asked_in(found, question), value), **given)

    def send(self, question: mt.OpenQuestion, **said: Any) -> None:
        """Fill in the form and send it."""
        fields = _fields(question, said)
        sent = self.client.post(
            f"/q/{question.id}", data={**fields, "walk": self.walk}, headers=OWN
        )
        assert sent.status_code in {200, 303}, sent.text
        self.walk = carried(sent.text)

    def refusal(self, id: str) -> str:
        return html.unescape(
            self.client.post(f"/q/{id}", data={"act": "answer", "answer": "yes"}, headers=OWN).text
        )


def _of_form(question: mt.OpenQuestion) -> list[object]:
    return [asked["id"] for asked in question.form.questions] if question.form else []


def _fields(question: mt.OpenQuestion, said: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the page's form. A no is sent with its reason."""
    ((does, what),) = [(key, value) for key, value in said.items() if key != "reason"]
    given: dict[str, dict[str, Any]] = {
        "approve": {
            "act": ("send" if question.form or question.kind == "review" else "approve")
            if what
            else "refuse"
        },
        "arguments": {"act": "edit", "edited": json.dumps(what)},
        "content": {"act": "edit", "edited": what},
        "reply": {"act": "reply", "reply": what},
        "cancel": {"act": "end"},
        "back": {"act": "back"},
        "value": {"act": "answer", "answer": what, "secret": what},
    }
    return {**given[does], **{key: value for key, value in said.items() if key == "reason"}}


def asked_in(found: mt.OpenQuestion, id: str) -> dict[str, Any]:
    """Return the question as it was asked. It may be any question of a form."""
    whole: Any = found.to_json()
    questions: list[dict[str, Any]] = whole["form"]["questions"] if found.form else []
    return next((question for question in questions if question["id"] == id), whole["question"])


def _control(asked: dict[str, Any], value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    values: list[Any] = [option["value"] for option in asked["answer_type"].get("options", ())]
    return str(values.index(value)) if values else str(value)


class PrompterPerson:
    """Answers the prompts of a program while its turn runs. The asker's thread waits for each
    reply.
    """

    def __init__(self) -> None:
        self.prompter = Waiting()

    def attached_to(self, asker: Asker) -> Attached:
        """Return the asker with this person attached."""
        return Attached(asker)

    def says(self, question: str, reply: mt.Reply) -> None:
        """Wait for a prompt and reply to it."""
        id = f"__{question}__" if question in APPROVALS else question
        self.prompter.dialogs.reply(lambda prompt: prompt.question.id == id, lambda _: reply)

    def answer(self, question: str, value: Any, reason: str | None = None) -> None:
        self.says(question, mt.Answered(value, reason=reason))

    def reply(self, question: str, words: str) -> None:
        self.says(question, mt.Replied(words))

    def back(self, question: str) -> None:
        self.says(question, mt.WentBack())

    def end_turn(self, question: str) -> None:
        self.says(question, mt.EndedTurn())

    def allow(self, kind: str) -> None:
        self.says(kind, mt.Submitted() if kind == "review" else mt.Answered(value=True))

    def refuse(self, kind: str, reason: str) -> None:
        self.says(kind, mt.Answered(value=False, reason=reason))

    def edit(self, kind: str, value: Any) -> None:
        self.says(kind, mt.Edited(value))

    def refusal(self, id: str) -> str:
        """Not played: a closed question has no prompt."""
        raise NotImplementedError

    tries = refusal

    def leave(self) -> None:
        """Do nothing: this person stays."""

    def return_(self) -> None:
        """Do nothing: this person has not left."""


class Dialogs:
    """Dialogs that a program shows until another thread replies."""

    def __init__(self) -> None:
        self.shown: list[tuple[Any, Future[Any]]] = []

    async def show(self, what: Any) -> Any:
        """Show a dialog and wait for the reply."""
        replied: Future[Any] = Future()
        self.shown.append((what, replied))
        return await asyncio.wrap_future(replied)

    def reply(self, fits: Callable[[Any], bool], reply: Callable[[Any], Any]) -> None:
        """Wait for a matching dialog and reply to the newest one."""
        found = until(
            lambda: [
                (what, replied) for what, replied in self.shown if not replied.done() and fits(what)
            ],
            bool,
        )
        what, replied = found[-1]
        replied.set_result(reply(what))


class Waiting(mt.Prompter):
    """A prompter that shows each prompt as a dialog."""

    def __init__(self) -> None:
        self.dialogs = Dialogs()

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        """Show the prompt and wait."""
        return await self.dialogs.show(prompt)


class Attached:
    """An asker whose turn runs in a thread while its person is attached."""

    @property
    def store(self) -> ConversationStore:
        return self.asker.store

    def again(self) -> None:
        """Do nothing: the turn is running."""

    def change(self) -> None:
        self.asker.change()

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.running = threading.Thread(target=asker.begin, daemon=True)

    def begin(self) -> None:
        """Start the turn in a thread."""
        self.running.start()

    def go_on(self) -> None:
        """Do nothing: the turn continues by itself."""

    def die(self) -> None:
        """Not played: its person is in the same process."""
        raise NotImplementedError

    begin_in_namespace = end_in_namespace = die

    def outcome(self) -> Outcome:
        """Wait for the end."""
        self.running.join(120)
        return self.asker.outcome()


class CommandPerson(OutsidePerson):
    """Answers by `midturn answer ID VALUE`."""

    def __init__(self, store: ConversationStore, user: CommandLine, address: str) -> None:
        super().__init__(store)
        self.user = user
        self.address = address

    def send(self, question: mt.OpenQuestion, **said: Any) -> None:
        self.user.ok("answer", question.id, *_words(said), "--store", self.address)

    def refusal(self, id: str) -> str:
        return " ".join(self.user.run("answer", id, "y", "--store", self.address).stderr.split())


def _words(said: dict[str, Any]) -> list[str]:
    reason = ["--reason", said["reason"]] if "reason" in said else []
    match said:
        case {"approve": yes}:
            return ["y" if yes else "n", *reason]
        case {"arguments": edited} | {"content": edited}:
            return [json.dumps({"edit": edited})]
        case {"reply": words}:
            return ["--reply", words]
        case {"cancel": True}:
            return ["--cancel"]
        case _:
            value = said["value"]
            return [value if isinstance(value, str) else json.dumps(value), *reason]

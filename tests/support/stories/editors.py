"""A person in an editor that runs midturn's agent: `midturn acp` asks in dialogs of the Agent
Client Protocol.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from midturn.cli.command_context import StoreAddress
from midturn.stores.store import ConversationStore
from support.acp_editor import (
    Editor,
    Form,
    Permission,
    in_process_editor,
    open_session,
    send_prompt,
)
from support.hooks import until
from support.stories.assistants import Assistant
from support.stories.outcome import Outcome
from support.stories.people import Dialogs, OutsidePerson
from support.stories.scene import Scene

_CHOSEN = {
    ("run", True): "allow",
    ("run", False): "refuse",
    ("deliver", True): "deliver",
    ("deliver", False): "withhold",
}


class EditorPerson(OutsidePerson):
    """Answers in dialogs of an editor: fills in forms and chooses permissions."""

    def __init__(self, store: ConversationStore) -> None:
        super().__init__(store)
        self.dialogs = Dialogs()
        self.editor = Editor(forms=True)
        self.editor.choose = self.dialogs.show
        self.editor.fill = self.dialogs.show
        self.loop: asyncio.AbstractEventLoop | None = None
        self.session = ""

    def answer(self, question: str, value: Any, reason: str | None = None) -> None:
        assert reason is None
        self.dialogs.reply(
            lambda form: isinstance(form, Form) and [*form.schema["properties"]] == [question],
            lambda _: {question: value},
        )

    def allow(self, kind: str) -> None:
        self._choose(_CHOSEN[kind, True])

    def refuse(self, kind: str, reason: str) -> None:
        assert not reason
        self._choose(_CHOSEN[kind, False])

    def end_turn(self, question: str) -> None:
        """Wait for the dialog, then stop the turn with the editor's button."""
        self.find(question)
        until(lambda: self.dialogs.shown, bool)
        assert self.loop
        asyncio.run_coroutine_threadsafe(self.editor.agent.cancel(self.session), self.loop).result(
            60
        )

    def _choose(self, option: str) -> None:
        self.dialogs.reply(
            lambda asked: isinstance(asked, Permission) and option in asked.options,
            lambda _: option,
        )


class EditorAssistant(Assistant):
    """The assistant in an editor. Its turn runs in a thread while its person answers."""

    waits = ""

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(scene, directory)
        self.person = EditorPerson(self.store)
        self.running = threading.Thread(target=lambda: asyncio.run(self._turn()), daemon=True)

    def begin(self) -> None:
        """Send the prompt from the editor."""
        self.running.start()

    def go_on(self) -> None:
        """Do nothing: the turn continues by itself."""

    def again(self) -> None:
        """Do nothing: the turn is running."""

    def outcome(self) -> Outcome:
        """Wait for the end of the turn; return the recorded outcome."""
        self.running.join(120)
        assert not self.running.is_alive()
        self.held()
        return super().outcome()

    async def _turn(self) -> None:
        async with in_process_editor(
            self.user, self.person.editor, store=StoreAddress(self.address)
        ) as editor:
            self.person.loop = asyncio.get_running_loop()
            self.person.session = await open_session(self.user, editor)
            await send_prompt(editor, self.person.session)

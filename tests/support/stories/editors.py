"""A person in an editor, in which our assistant runs: `midturn acp` asks in dialogs of the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from midturn.cli.command_context import StoreAddress
from midturn.stores.store import ConversationStore
from support.acp_editor import Editor, Form, Permission, began, beside, prompted
from support.hooks import until
from support.stories.assistants import Assistant
from support.stories.outcome import Outcome
from support.stories.people import Dialogs, OutsidePerson
from support.stories.scene import Scene

_CHOSEN = {("run", True): "allow", ("run", False): "refuse", ("deliver", True): "deliver", ("deliver", False): "withhold"}


class EditorPerson(OutsidePerson):
    """Answers in dialogs of an editor: forms are filled in, permissions are chosen."""

    def __init__(self, store: ConversationStore) -> None:
        super().__init__(store)
        self.dialogs = Dialogs()
        self.editor = Editor(forms=True)
        self.editor.choose = self.dialogs.show
        self.editor.fill = self.dialogs.show
        self.loop: asyncio.AbstractEventLoop | None = None
        self.session = ""

    def answer(self, question: str, value: Any, reason: str | None = None) -> None:
        """Fill the form in."""
        assert reason is None
        self.dialogs.reply(lambda form: isinstance(form, Form) and [*form.schema["properties"]] == [question], lambda _: {question: value})

    def allow(self, kind: str) -> None:
        """Choose the yes."""
        self._choose(_CHOSEN[kind, True])

    def refuse(self, kind: str, reason: str) -> None:
        """Choose the no."""
        assert not reason
        self._choose(_CHOSEN[kind, False])

    def end_turn(self, question: str) -> None:
        """Stop the turn by the button of the editor, once the dialog is there."""
        self.find(question)
        until(lambda: self.dialogs.shown, bool)
        assert self.loop
        asyncio.run_coroutine_threadsafe(self.editor.agent.cancel(self.session), self.loop).result(60)

    def _choose(self, option: str) -> None:
        self.dialogs.reply(lambda asked: isinstance(asked, Permission) and option in asked.options, lambda _: option)


class EditedAssistant(Assistant):
    """Our assistant in an editor; its turn runs in a thread while its person is there."""

    waits = ""

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(scene, directory)
        self.person = EditorPerson(self.store)
        self.running = threading.Thread(target=lambda: asyncio.run(self._turn()), daemon=True)

    def begin(self) -> None:
        """Prompt in the editor."""
        self.running.start()

    def go_on(self) -> None:
        """It goes on by itself."""

    def again(self) -> None:
        """It runs."""

    def outcome(self) -> Outcome:
        """Wait for the end of the turn; say what is on record."""
        self.running.join(60)
        assert not self.running.is_alive()
        self.held()
        return super().outcome()

    async def _turn(self) -> None:
        async with beside(self.user, self.person.editor, store=StoreAddress(self.address)) as editor:
            self.person.loop = asyncio.get_running_loop()
            self.person.session = await began(self.user, editor)
            await prompted(editor, self.person.session)

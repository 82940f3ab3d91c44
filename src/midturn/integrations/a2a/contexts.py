"""Maps the contexts of A2A clients to conversations.

Each context is one conversation. Its ID is the ID of the conversation, unless the client chose
another ID. Conversations are found by a key that depends on the name of the principal, so a
principal can access only its own conversations.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Final

from midturn.errors import NoConversation
from midturn.events.window import turns
from midturn.integrations.a2a.tasks import TaskTurn
from midturn.question.text import sha256
from midturn.stores.store import ConversationStore

_PAGE: Final = 500


class Contexts:
    """The contexts of all principals."""

    def __init__(self, store: ConversationStore) -> None:
        self._store = store

    async def find(self, context: str, user: str) -> str | None:
        """Return the conversation ID of a context, or None if this principal has no such context.

        Raises:
            StoreError: The store cannot be read.
        """
        found = await self._store.find(_key(user, "context", context))
        if found is not None:
            return found
        return context if await self._is_own(context, user) else None

    async def open(self, context: str, user: str, *, title: str, message: str) -> str:
        """Return the conversation ID of a context. Create the conversation if it does not exist.

        Args:
            context: The context ID; empty for a new context.
            user: Name of the principal.
            title: Title of a new conversation.
            message: ID of the message. If a message without a context is sent again, the same
                conversation is returned.

        Raises:
            StoreError: The store cannot be read or written.
        """
        if context and (found := await self.find(context, user)) is not None:
            return found
        key = _key(user, "context", context) if context else _key(user, "message", message)
        conversation = await self._store.new(title, key=key)
        await self._store.port.describe(conversation, labels=(_label(user),))
        return conversation

    async def _is_own(self, context: str, user: str) -> bool:
        """Return whether a context ID is the ID of a conversation that this principal began."""
        if not (context.isascii() and context.isdecimal()):
            return False
        tasks = await self.tasks(context)
        return any(task.user == user and task.context == context for task in tasks)

    async def tasks(self, conversation: str) -> list[TaskTurn]:
        """Return the tasks of a conversation, oldest first. Empty if it does not exist.

        Raises:
            StoreError: The store cannot be read.
        """
        try:
            events = (await self._store.read(conversation)).events
        except NoConversation:
            return []
        each = (TaskTurn.of(conversation, window) for window in turns(events))
        return [task for task in each if task is not None]

    async def newest_tasks(self, user: str) -> AsyncGenerator[TaskTurn]:
        """Yield the tasks of a principal, the newest conversation first. Conversations of other
        principals are not read.

        Raises:
            StoreError: The store cannot be read.
        """
        async with aclosing(self._labelled(user)) as pages:
            conversations = [conversation async for conversation in pages]
        for conversation in reversed(conversations):
            for task in reversed(await self.tasks(conversation)):
                if task.user == user:
                    yield task

    async def _labelled(self, user: str) -> AsyncGenerator[str]:
        label, after = _label(user), ""
        while page := await self._store.port.described(after=after, limit=_PAGE):
            for conversation, metadata in page:
                if label in metadata.labels:
                    yield conversation
            after = page[-1][0]


def known_message(tasks: list[TaskTurn], message: str, user: str) -> TaskTurn | None:
    """Return the task that a message began, or None if it began no task."""
    return next(_begun_with(tasks, message, user), None)


def _begun_with(tasks: list[TaskTurn], message: str, user: str) -> Iterator[TaskTurn]:
    return (task for task in tasks if task.message == message and task.user == user)


def _key(user: str, kind: str, name: str) -> str:
    """Return the key of a conversation. It contains a digest of the user name, so that keys are
    short and differ between users.
    """
    return f"a2a:{sha256(user.encode())}:{kind}:{name}"


def _label(user: str) -> str:
    """Return the label of a principal's conversations. It contains a digest instead of the name."""
    return f"a2a-{sha256(user.encode())[:16]}"

"""A new message while questions are open: it becomes the reply to those that its author may answer."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from midturn.errors import AlreadyAnswered, AnswerError, ConfigError, NotAllowed, NotOpen
from midturn.events.open_question import OpenQuestion, holds_secret
from midturn.stores.store import ConversationStore

OnOpen: TypeAlias = Literal["error", "reply"]
"""What becomes of a message while questions are open: it is refused with `TurnOpen`, or it is the reply to them."""


def check_on_open(on_open: str, key: str | None) -> None:
    """Refuse what is no way to treat a message.

    Raises:
        ConfigError: It is another word, or a reply is to have a key, which names a turn that begins.
    """
    if on_open not in get_args(OnOpen):
        raise ConfigError(f"`on_open` is 'error' or 'reply', not {on_open!r}.")
    if on_open == "reply" and key is not None:
        raise ConfigError(
            f'`on_open="reply"` and the `key` {key!r} do not go together: a reply begins no turn that the key could find again. '
            "Leave out one of them."
        )


async def reply_with_message(store: ConversationStore, conversation: str, text: str, user: str | None) -> tuple[OpenQuestion, ...]:
    """Reply with a message to the open questions that its author may answer; return those that have taken it.

    Approvals stay open, because words decide nothing; secrets, because a reply is recorded; and questions of others.

    Args:
        store: The store, with the rules of who may answer.
        conversation: The id of the conversation.
        text: The message.
        user: Its author.
    """
    taken: list[OpenQuestion] = []
    for question in await store.pending(conversation):
        if question.kind != "tool" or holds_secret(question):
            continue
        try:
            await store.answer(question, reply=text, user=user)
        except (NotAllowed, AlreadyAnswered, NotOpen, AnswerError):  # it is not theirs to answer, or somebody else was first
            continue
        taken.append(question)
    return tuple(taken)


def recorded_as_reply(taken: tuple[OpenQuestion, ...]) -> str:
    """Return what to say of a message that was taken as a reply, where its turn cannot be continued here."""
    asked = ", ".join(question.id for question in taken)
    return f"The message is recorded as a reply to {asked}: do not send it again. The turn continues where it runs."

"""Messages that arrive while questions are open. Such a message can become the reply to the
questions that its author may answer.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from midturn.errors import AlreadyAnswered, AnswerError, ConfigError, NotAllowed, NotOpen
from midturn.events.open_question import OpenQuestion, holds_secret
from midturn.stores.store import ConversationStore

OnOpen: TypeAlias = Literal["error", "reply"]
"""How to handle a message while questions are open: raise `TurnOpen`, or record the message as
the reply to the questions.
"""


def check_on_open(on_open: str, key: str | None) -> None:
    """Check the value of `on_open`.

    Raises:
        ConfigError: The value is invalid, or `reply` is combined with a key. A key identifies a new
            turn.
    """
    if on_open not in get_args(OnOpen):
        raise ConfigError(f"`on_open` must be 'error' or 'reply', got {on_open!r}.")
    if on_open == "reply" and key is not None:
        raise ConfigError(
            f'`on_open="reply"` cannot be combined with the `key` {key!r}, because a reply does not'
            " start a turn that the key could identify. Omit one of them."
        )


async def reply_with_message(
    store: ConversationStore, conversation: str, text: str, user: str | None
) -> tuple[OpenQuestion, ...]:
    """Record a message as the reply to the open questions that its author may answer. Return these
    questions.

    Approvals stay open, because a message is not a decision. Secrets stay open, because the message
    would be recorded. Questions for other people also stay open.

    Args:
        store: The store, with its authorization.
        conversation: Id of the conversation.
        text: The message.
        user: Name of the author of the message.
    """
    taken: list[OpenQuestion] = []
    for question in await store.pending(conversation):
        if question.kind != "tool" or holds_secret(question):
            continue
        try:
            await store.answer(question, reply=text, user=user)
        except (
            NotAllowed,
            AlreadyAnswered,
            NotOpen,
            AnswerError,
        ):  # the user may not answer the question, or another person has answered it
            continue
        taken.append(question)
    return tuple(taken)


def recorded_as_reply(taken: tuple[OpenQuestion, ...]) -> str:
    """Return the error text for a message that was recorded as a reply, although this process
    cannot continue the turn.
    """
    asked = ", ".join(question.id for question in taken)
    return (
        f"The message is recorded as a reply to {asked}. Do not send it again. The turn continues"
        " in the process that runs it."
    )

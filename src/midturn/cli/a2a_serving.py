"""Runs tasks for A2A clients with the configuration of the working directory."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from midturn.cli.command_context import CommandContext
from midturn.cli.configured_turns import ConfiguredTurns, OpenedStream
from midturn.cli.loading import Flags
from midturn.http import Listening
from midturn.http_token import TokenServer, new_token
from midturn.integrations.a2a.app import application
from midturn.integrations.a2a.card import CARD_PATH, token_card
from midturn.integrations.a2a.webhooks import PushSettings
from midturn.question.json_value import JsonObject
from midturn.stores.store import ConversationStore


class ServeOptions(Struct, frozen=True, kw_only=True):
    """Options of `midturn a2a serve`.

    Args:
        listening: Address to listen on.
        token: Token that clients must send; None to generate one.
        user: User name to record with tasks and answers.
        name: Name in the agent card.
        description: Description in the agent card.
        url: Public URL in the agent card; None for the address of the server.
        works: Whether to continue turns in the background, without a request.
        push_key: Key that encrypts webhooks in the store; None to disable push notifications.
        pushes_to_private_addresses: Whether to allow webhooks in private networks.
    """

    listening: Listening
    token: str | None
    user: str
    name: str
    description: str
    url: str | None
    works: bool
    push_key: str | None = None
    pushes_to_private_addresses: bool = False


class ConfiguredTasks:
    """Runs turns for A2A clients with the configuration of a directory."""

    def __init__(self, turns: ConfiguredTurns) -> None:
        self._turns = turns

    @property
    def store(self) -> ConversationStore:
        """The store that contains the conversations."""
        return self._turns.store

    def start(
        self, conversation: str, text: str, *, key: str, metadata: JsonObject, author: str
    ) -> OpenedStream:
        """Start a turn."""
        return self._turns.start(
            conversation, text, key=key, metadata=metadata, author=author, history=()
        )

    def resume(self, conversation: str) -> OpenedStream:
        """Resume the open turn."""
        return self._turns.resume(conversation, after=None, secrets={}, user=None)


async def serve_assistant(
    place: CommandContext,
    flags: Flags,
    options: ServeOptions,
    ready: Callable[[str, str], None],
) -> int:
    """Serve clients until the process receives a signal. Return the signal number.

    Args:
        place: The working directory and the store.
        flags: Flags of the command.
        options: Options of the command.
        ready: Called with the URL and the token when the server accepts requests.
    """
    token = options.token or new_token()
    turns = ConfiguredTurns(place, flags)
    server = TokenServer(options.listening, token, public=[CARD_PATH])
    url = options.url or server.url
    push = (
        None
        if options.push_key is None
        else PushSettings(
            key=options.push_key, private_addresses=options.pushes_to_private_addresses
        )
    )
    app = application(
        ConfiguredTasks(turns),
        user=lambda _: options.user,
        card=token_card(options.name, options.description, url, has_push=push is not None),
        work=options.works,
        push=push,
    )
    try:
        return await server.serve(app, lambda: ready(url, token))
    finally:
        await turns.close()

"""Serves AG-UI front ends with the configuration of the working directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from midturn.cli.command_context import CommandContext
from midturn.cli.configured_turns import ConfiguredTurns
from midturn.cli.loading import Flags
from midturn.http import Listening
from midturn.http_token import TokenServer, new_token
from midturn.integrations.agui.app import application
from midturn.integrations.agui.thread_run import RunSettings


class ServeOptions(Struct, frozen=True, kw_only=True):
    """Options of `midturn agui serve`.

    Args:
        listening: Address to listen on.
        token: Token that clients must send; None to generate one.
        user: Name recorded with messages and answers.
        origins: Origins whose pages may send requests.
        secrets: Whether front ends may send secrets.
        context: Whether the front end's context is added to messages.
        works: Whether the server continues turns without a request.
    """

    listening: Listening
    token: str | None
    user: str
    origins: Sequence[str]
    secrets: bool
    context: bool
    works: bool


async def serve_assistant(
    place: CommandContext,
    flags: Flags,
    options: ServeOptions,
    ready: Callable[[str, str], None],
) -> int:
    """Serve front ends until a signal arrives. Return the number of the signal.

    Args:
        place: The working directory and the store.
        flags: Flags of the command.
        options: Options of the command.
        ready: Called with the URL and the token when the server accepts requests.
    """
    token = options.token or new_token()
    turns = ConfiguredTurns(place, flags)
    app = application(
        turns,
        user=lambda _: options.user,
        settings=RunSettings(secrets=options.secrets, context=options.context),
        work=options.works,
        origins=options.origins,
    )
    try:
        server = TokenServer(options.listening, token)
        return await server.serve(app, lambda: ready(server.url, token))
    finally:
        await turns.close()

"""Tools of MCP servers as tools of an agent."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar, cast

from mcp import types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from midturn.events.outcome import Outcome, Success, ToolError
from midturn.events.types import Image, Source
from midturn.exchange import ToolDefinition, checked_image
from midturn.mcp.call import Elicitations, InvalidResult, TooManyForms
from midturn.mcp.connection import McpConnection, ServerGone
from midturn.mcp.spec import SILENCE, ServerSpec, registered_name
from midturn.ports import Tool, ToolRun
from midturn.question.form import Form
from midturn.question.json_value import Json, JsonObject
from midturn.turn.inputs import Answer, FormWanted, Given, NoAnswer

# --------------------------------------------------------------------------------------------------
# Results of tools: text and images for the model, and a description of all other content


_MAX_REASONS: Final = 3


def outcome_of(result: types.CallToolResult) -> Success | ToolError:
    """Convert a result to the outcome of a call."""
    text = "\n\n".join(_block_text(block) for block in result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if result.is_error:
        return ToolError(text or "The tool failed, and did not say why.")
    return Success(text, tuple(image for block in result.content if (image := _image(block))))


def with_question_results(
    outcome: Success | ToolError, asked: Elicitations, server: str
) -> Success | ToolError:
    """Add information about the server's questions to the outcome: messages that people sent
    instead of answers, and questions that were not asked.

    The server's own result does not contain this information. If a person sent a message, the
    outcome is a success, even if the server reports the declined question as an error.
    """
    text = outcome.message if isinstance(outcome, ToolError) else outcome.content
    returned = "It returned an error:" if isinstance(outcome, ToolError) else "It returned:"
    notes: list[str] = []
    if asked.replies:
        notes = [
            *asked.replies,
            f"The user did not answer what {server} asked; it was told `decline`.",
        ]
    if asked.unasked:
        notes.append(_unasked(asked.unasked, server))
    if not notes:
        return outcome
    whole = "\n".join([*notes, returned, text])
    return (
        ToolError(whole)
        if isinstance(outcome, ToolError) and not asked.replies
        else Success(whole, _images(outcome))
    )


def _unasked(reasons: Sequence[str], server: str) -> str:
    what = "something" if len(reasons) == 1 else f"{len(reasons)} things"
    different = list(dict.fromkeys(reasons))
    why = "; ".join([*different[:_MAX_REASONS], *(["…"] if len(different) > _MAX_REASONS else [])])
    return (
        f"{server[0].upper()}{server[1:]} asked {what} that nobody answered: {why}. It was told"
        " `cancel`."
    )


def _images(outcome: Success | ToolError) -> tuple[Image, ...]:
    return () if isinstance(outcome, ToolError) else outcome.images


def _image(block: types.ContentBlock) -> Image | None:
    match block:
        case (
            types.ImageContent(data=data)
            | types.EmbeddedResource(resource=types.BlobResourceContents(blob=data))
        ):
            return checked_image(data)
        case _:
            return None


def _block_text(block: types.ContentBlock) -> str:
    image = _image(block)
    unseen = "" if image else ", which cannot be shown here"
    match block:
        case types.TextContent(text=text):
            return text
        case (
            types.ImageContent(data=data, mime_type=kind)
            | types.AudioContent(data=data, mime_type=kind)
        ):
            return (
                f"[{image.media_type if image else kind}, about {len(data) * 3 // 4:,}"
                f" bytes{unseen}]"
            )
        case types.ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, text=text)):
            return f"[{uri}]\n{text}"
        case types.EmbeddedResource(
            resource=types.BlobResourceContents(uri=uri, mime_type=kind, blob=blob)
        ):
            return (
                f"[{uri}: {image.media_type if image else kind or 'bytes'}, about"
                f" {len(blob) * 3 // 4:,} bytes{unseen}]"
            )
        case _:
            return f"[{type(block).__name__}, which cannot be shown here]"


T = TypeVar("T")
_MAX_PLACES = 3


class McpTool:
    """A tool that runs in the event loop of the turn and calls its server in the event loop of
    `McpServers`.
    """

    def __init__(
        self,
        connection: McpConnection,
        tool: types.Tool,
        name: str,
        loop: asyncio.AbstractEventLoop,
        silence: float = SILENCE,
    ) -> None:
        self._connection = connection
        self._tool = tool
        self._loop = loop
        self._silence = silence
        schema = cast("JsonObject", tool.input_schema)
        self._definition = ToolDefinition(name, tool.description or tool.title or tool.name, schema)

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and schema of the tool, from its server."""
        return self._definition

    @property
    def server(self) -> str:
        """Name of the server."""
        return self._connection.spec.name

    @property
    def name_at_server(self) -> str:
        """Name of the tool at the server."""
        return self._tool.name

    def inquiry_source(self) -> Source:
        """Return the tool's registered name as the source. A server cannot choose the source of a
        question.
        """
        return Source.tool(self._definition.name)

    async def execute(self, run: ToolRun) -> Outcome:
        """Call the tool once (see `ports.Tool`). If the task is cancelled, also cancel the call
        at the server.
        """
        here = asyncio.get_running_loop()
        source = self.inquiry_source()

        async def ask(form: Form) -> Mapping[str, Json] | NoAnswer:
            given = await run.ask(FormWanted(form, source, "report_all", human_only=True))
            return next(
                (none for none in given.values() if isinstance(none, NoAnswer)), None
            ) or _values(given)

        asks = self._connection.spec.asks
        asked = Elicitations(
            (lambda form: _in_loop(ask(form), here)) if asks else None,
            self._definition.name,
            run.call.event,
            partial(here.call_soon_threadsafe, run.queued),
        )
        arguments = dict(cast("Mapping[str, Any]", run.call.arguments))
        call = self._connection.call(self._tool, arguments, asked, self._silence)
        server = f"the MCP server `{self._connection.spec.name}`"
        try:
            return with_question_results(
                outcome_of(await _in_loop(call, self._loop)), asked, server
            )
        except TooManyForms as error:
            return ToolError("\n".join([*asked.replies, str(error)]))
        except (ServerGone, TimeoutError, MCPError, InvalidResult, ValidationError) as error:
            return ToolError(
                "\n".join(
                    [
                        *asked.replies,
                        f"`{self._definition.name}`: {server} {self._error_text(error)}",
                    ]
                )
            )

    def _error_text(self, error: Exception) -> str:
        """Return the error text for the model."""
        match error:
            case ServerGone():
                return f"has gone away: {error}"
            case TimeoutError():
                return (
                    f"was given up: {str(error) or f'it was silent for {self._silence:g} seconds'}."
                )
            case InvalidResult():
                return f"gave a result that cannot be used: {error}"
            case ValidationError():
                return (
                    f"answered with something that is not in the protocol: {_invalid_places(error)}"
                )
            case _:
                return f"refuses: {error}"


def _values(given: Given) -> Mapping[str, Json]:
    answers = {id: answer.value for id, answer in given.items() if isinstance(answer, Answer)}  # noqa: A001  the wire's word
    return cast(
        "Mapping[str, Json]", answers
    )  # servers cannot ask for secrets, so all values are JSON


def _invalid_places(error: ValidationError) -> str:
    """List the errors in an invalid message, with their locations but without the values that the
    server sent.
    """
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
        for each in error.errors(include_input=False)[:_MAX_PLACES]
    )


async def _in_loop(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Await a coroutine that runs in another event loop. Cancelling the caller cancels the
    coroutine.
    """
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


# --------------------------------------------------------------------------------------------------
# All servers of a run. They have their own thread and event loop, because the servers outlive a
# turn and its loop.


class McpServers:
    """Connected servers. `problems` contains an error for each server that could not be reached.
    The tools of these servers are missing.
    """

    def __init__(
        self,
        specs: Sequence[ServerSpec],
        names: Mapping[str, str] | None = None,
        silence: Mapping[str, float] | None = None,
        reserved: Collection[str] = (),
    ) -> None:
        """Connect to all servers concurrently.

        Args:
            specs: Specification of each server.
            names: New names for tools, by `<server>_<tool>`.
            silence: Maximum number of seconds without a message from the server during a call, by
                tool name.
            reserved: Names that servers' tools must not use.
        """
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="mcp-servers", daemon=True
        )
        self._thread.start()
        self._connections = [
            asyncio.run_coroutine_threadsafe(_create(spec), self._loop).result() for spec in specs
        ]
        self.problems: dict[str, str] = {}
        self.tools: dict[str, list[Tool]] = {spec.name: [] for spec in specs}
        """Tools by the name of their server."""
        self.left_out: dict[str, list[str]] = {}
        """Tools whose names are reserved or already used, by the name of their server."""
        self._start(names or {}, silence or {}, set(reserved))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from all servers and stop the thread."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def connected_tools(self, server: str) -> Sequence[McpTool]:
        """Return the tools of a server."""
        return [tool for tool in self.tools[server] if isinstance(tool, McpTool)]

    def _start(
        self, names: Mapping[str, str], silence: Mapping[str, float], taken: set[str]
    ) -> None:
        starting = [
            (each, asyncio.run_coroutine_threadsafe(each.start(), self._loop))
            for each in self._connections
        ]
        for connection, started in starting:
            try:
                started.result()
            except ServerGone as gone:
                self.problems[connection.spec.name] = str(gone)
                continue
            for tool in connection.tools:
                known = registered_name(connection.spec.name, tool.name)
                name = names.get(known, known)
                if name in taken:
                    self.left_out.setdefault(connection.spec.name, []).append(name)
                    continue
                taken.add(name)
                self.tools[connection.spec.name].append(
                    McpTool(
                        connection,
                        tool,
                        name,
                        self._loop,
                        silence.get(name, connection.spec.silence),
                    )
                )

    async def _close_all(self) -> None:
        await asyncio.gather(
            *(connection.close() for connection in self._connections), return_exceptions=True
        )


async def _create(spec: ServerSpec) -> McpConnection:
    """Create a connection in the event loop of the servers. The connection's locks can be used only
    in the loop in which they are created.
    """
    return McpConnection(spec)

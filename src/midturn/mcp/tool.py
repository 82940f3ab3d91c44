"""A tool of a server, as one of ours."""

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
from midturn.mcp.call import Elicitations, TooManyForms, UnfitResult
from midturn.mcp.connection import Connection, ServerGone
from midturn.mcp.spec import SILENCE, ServerSpec, registered_name
from midturn.ports import Tool, ToolRun
from midturn.question.form import Form
from midturn.question.json_value import Json, JsonObject
from midturn.turn.step import Answer, FormWanted, Given, NoAnswer

# ----------------------------------------------------------------------------------------------------------------------
# What a server's tool returned, as a model reads and sees it: text, pictures, and for everything else what it is


_REASONS: Final = 3


def outcome_of(result: types.CallToolResult) -> Success | ToolError:
    """Return a result as the outcome of a call."""
    text = "\n\n".join(_shown(block) for block in result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if result.is_error:
        return ToolError(text or "The tool failed, and did not say why.")
    return Success(text, tuple(image for block in result.content if (image := _picture(block))))


def with_what_came_of_it(outcome: Success | ToolError, asked: Elicitations, server: str) -> Success | ToolError:
    """Put before a result what the server cannot say of its questions: a person's words, which it has not heard, and that no one was asked.

    A reply is no failure of the call, whatever the server makes of hearing no.
    """
    text = outcome.message if isinstance(outcome, ToolError) else outcome.content
    returned = "It returned an error:" if isinstance(outcome, ToolError) else "It returned:"
    told: list[str] = []
    if asked.replies:
        told = [*asked.replies, f"The user did not answer what {server} asked; it was told `decline`."]
    if asked.unasked:
        told.append(_unasked(asked.unasked, server))
    if not told:
        return outcome
    whole = "\n".join([*told, returned, text])
    return ToolError(whole) if isinstance(outcome, ToolError) and not asked.replies else Success(whole, _images(outcome))


def _unasked(reasons: Sequence[str], server: str) -> str:
    what = "something" if len(reasons) == 1 else f"{len(reasons)} things"
    different = list(dict.fromkeys(reasons))
    why = "; ".join([*different[:_REASONS], *(["…"] if len(different) > _REASONS else [])])
    return f"{server[0].upper()}{server[1:]} asked {what} that nobody answered: {why}. It was told `cancel`."


def _images(outcome: Success | ToolError) -> tuple[Image, ...]:
    return () if isinstance(outcome, ToolError) else outcome.images


def _picture(block: types.ContentBlock) -> Image | None:
    match block:
        case types.ImageContent(data=data) | types.EmbeddedResource(resource=types.BlobResourceContents(blob=data)):
            return checked_image(data)
        case _:
            return None


def _shown(block: types.ContentBlock) -> str:
    picture = _picture(block)
    unseen = "" if picture else ", which cannot be shown here"
    match block:
        case types.TextContent(text=text):
            return text
        case types.ImageContent(data=data, mime_type=kind) | types.AudioContent(data=data, mime_type=kind):
            return f"[{picture.media_type if picture else kind}, about {len(data) * 3 // 4:,} bytes{unseen}]"
        case types.ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, text=text)):
            return f"[{uri}]\n{text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents(uri=uri, mime_type=kind, blob=blob)):
            return f"[{uri}: {picture.media_type if picture else kind or 'bytes'}, about {len(blob) * 3 // 4:,} bytes{unseen}]"
        case _:
            return f"[{type(block).__name__}, which cannot be shown here]"


T = TypeVar("T")
_PLACES = 3


class McpTool:
    """Runs in the loop of the turn; the server lives in another one."""

    def __init__(
        self, connection: Connection, tool: types.Tool, name: str, loop: asyncio.AbstractEventLoop, silence: float = SILENCE
    ) -> None:
        self._connection = connection
        self._tool = tool
        self._loop = loop
        self._silence = silence
        schema = cast("JsonObject", tool.input_schema)
        self._definition = ToolDefinition(name, tool.description or tool.title or tool.name, schema)

    @property
    def definition(self) -> ToolDefinition:
        """The tool as its server describes it."""
        return self._definition

    @property
    def server(self) -> str:
        """The name of its server."""
        return self._connection.spec.name

    @property
    def name_at_server(self) -> str:
        """The name that its server gives it."""
        return self._tool.name

    def inquiry_source(self) -> Source:
        """It is always the tool that asks, under its registered name: no server sets who asks."""
        return Source.tool(self._definition.name)

    async def execute(self, run: ToolRun) -> Outcome:
        """Call it once (see `ports.Tool`). Cancelling the task cancels the call at the server."""
        here = asyncio.get_running_loop()
        source = self.inquiry_source()

        async def ask(form: Form) -> Mapping[str, Json] | NoAnswer:
            given = await run.ask(FormWanted(form, source, "report_all", human_only=True))
            return next((none for none in given.values() if isinstance(none, NoAnswer)), None) or _values(given)

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
            return with_what_came_of_it(outcome_of(await _in_loop(call, self._loop)), asked, server)
        except TooManyForms as error:
            return ToolError("\n".join([*asked.replies, str(error)]))
        except (ServerGone, TimeoutError, MCPError, UnfitResult, ValidationError) as error:
            return ToolError("\n".join([*asked.replies, f"`{self._definition.name}`: {server} {self._trouble(error)}"]))

    def _trouble(self, error: Exception) -> str:
        """Say why there is no result."""
        match error:
            case ServerGone():
                return f"has gone away: {error}"
            case TimeoutError():
                return f"was given up: {str(error) or f'it was silent for {self._silence:g} seconds'}."
            case UnfitResult():
                return f"gave a result that cannot be used: {error}"
            case ValidationError():
                return f"answered with something that is not in the protocol: {_wrong(error)}"
            case _:
                return f"refuses: {error}"


def _values(given: Given) -> Mapping[str, Json]:
    answers = {id: answer.value for id, answer in given.items() if isinstance(answer, Answer)}  # noqa: A001  the wire's word
    return cast("Mapping[str, Json]", answers)  # no server may ask for a secret


def _wrong(error: ValidationError) -> str:
    """Say where something is not as the protocol has it, without repeating what a server sent."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_input=False)[:_PLACES])


async def _in_loop(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Await something that runs in another loop; being cancelled here cancels it there."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


# ----------------------------------------------------------------------------------------------------------------------
# All servers of a run, in a thread with a loop of their own: they outlive a turn, and the loop that it runs in


class McpServers:
    """Connected servers. `problems` says why some could not be reached, by their names: their tools are absent."""

    def __init__(
        self,
        specs: Sequence[ServerSpec],
        names: Mapping[str, str] | None = None,
        silence: Mapping[str, float] | None = None,
        reserved: Collection[str] = (),
    ) -> None:
        """Connect to all of them at the same time.

        Args:
            specs: How they are reached.
            names: Other names for tools, by `<server>_<tool>`.
            silence: How many seconds a tool may be silent, by its name.
            reserved: Names that no tool of a server gets.
        """
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp-servers", daemon=True)
        self._thread.start()
        self._connections = [asyncio.run_coroutine_threadsafe(_made(spec), self._loop).result() for spec in specs]
        self.problems: dict[str, str] = {}
        self.tools: dict[str, list[Tool]] = {spec.name: [] for spec in specs}
        """By the name of their server."""
        self.left_out: dict[str, list[str]] = {}
        """By the name of their server, the tools whose names are reserved, or taken by another tool."""
        self._start(names or {}, silence or {}, set(reserved))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave all of them."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._closed(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def connected_tools(self, server: str) -> Sequence[McpTool]:
        """Return the tools of a server, by its name."""
        return [tool for tool in self.tools[server] if isinstance(tool, McpTool)]

    def _start(self, names: Mapping[str, str], silence: Mapping[str, float], taken: set[str]) -> None:
        starting = [(one, asyncio.run_coroutine_threadsafe(one.start(), self._loop)) for one in self._connections]
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
                    McpTool(connection, tool, name, self._loop, silence.get(name, connection.spec.silence))
                )

    async def _closed(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections), return_exceptions=True)


async def _made(spec: ServerSpec) -> Connection:
    """Make a connection in the loop that it belongs to."""
    return Connection(spec)

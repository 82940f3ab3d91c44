"""What a story needs of a framework: a scripted agent, an entry into it, and what came of that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from midturn.agent.inquirer import Inquirer
from midturn.agent.message_replies import OnOpen
from midturn.question.json_value import JsonObject


class ModelCall(Struct, frozen=True):
    """A call that the scripted model makes."""

    id: str
    tool: str
    arguments: JsonObject = {}


class ModelReply(Struct, frozen=True):
    """What the scripted model says: calls, or the text that ends the run."""

    text: str = ""
    calls: tuple[ModelCall, ...] = ()


class ProgramTool(Struct, frozen=True):
    """A tool of the scripted agent.

    Attributes:
        name: Its name.
        function: What it does: a function, async or not, with annotated parameters. It asks with `midturn.ask`, or `ask_sync`.
        needs_approval: Whether the framework is told that each call needs approval.
        refuse: What a guardrail or validator of the framework says of the arguments of a call: the reason why it may not run, or None.
    """

    name: str
    function: Callable[..., Any]
    needs_approval: bool = False
    refuse: Callable[[Mapping[str, Any]], str | None] | None = None


class Program(Struct, frozen=True):
    """A scripted agent.

    Attributes:
        reply: What the model says. It gets the number of replies that it has given since the user's message, and the contents of the tool
            results that it reads since then, in the order of the calls.
        tools: The tools.
        context: The context of the run (`deps`, `context`), for `context_tool`.
        context_tool: The function of a tool `whoami` without parameters, which is passed the context as the framework passes it to tools.
    """

    reply: Callable[[int, Sequence[str]], ModelReply]
    tools: Sequence[ProgramTool]
    context: str = ""
    context_tool: Callable[[str], Awaitable[str]] | None = None


class Saved:
    """What the framework keeps between two runs, as bytes: messages, a state, or checkpoints. None before the first run."""

    def __init__(self) -> None:
        self.content: bytes | None = None


class Entry(Struct, frozen=True):
    """One entry into a run.

    Attributes:
        inquirer: Who asks; None to run the framework plain, without midturn.
        text: The message of the user.
        is_new: Whether it is another message than that of the entry before. If not, the program goes on with what it has saved.
        key: The key of the turn.
        author: The user.
        on_open: What becomes of a new message while questions are open.
        is_stream: Whether the run is streamed.
    """

    inquirer: Inquirer | None
    text: str
    is_new: bool = True
    key: str | None = None
    author: str | None = None
    on_open: OnOpen = "error"
    is_stream: bool = False


class Outcome(Struct, frozen=True):
    """What came of an entry: the last text of the model, or None while calls wait; and the events of a stream."""

    text: str | None
    events: Sequence[object] = ()


Capability: TypeAlias = Literal["guardrails", "images", "context", "equal ids", "lost state"]
"""What not every framework has.

`equal ids`: calls of two replies of the model with the same id are two calls. `lost state`: a call that is made again is known by the id
that the model gave it, also if the framework has lost everything that it kept.
"""


class AdapterHarness(Protocol):
    """Runs scripted agents in one framework, through its adapter or plain."""

    @property
    def name(self) -> str:
        """The name of the framework."""
        ...

    @property
    def missing(self) -> Mapping[Capability, str]:
        """What the framework cannot do, each with the reason."""
        ...

    async def run(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Build the agent anew and run it; what goes on later is in `saved`.

        Where the adapter raises `Suspended` while calls wait, return an outcome without a text. Let every other exception pass.

        Args:
            program: The agent.
            saved: What the framework has kept; write it whenever the framework would.
            entry: The message, and who asks.
        """
        ...

    def run_sync(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Do the same in a thread without an event loop, in the framework's way without asyncio. The tools are not async.

        Args:
            program: The agent.
            saved: What the framework has kept.
            entry: The message, and who asks.
        """
        ...

    def image(self, data: bytes) -> object:
        """Return what a tool of the framework returns as a PNG image.

        In what the model reads, a harness writes an image as `[image of <number of> bytes]`.

        Args:
            data: The bytes of the image.
        """
        ...

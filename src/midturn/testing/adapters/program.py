"""Interface between stories and a framework: a scripted agent, the inputs of a run, and its
outcome.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from midturn.agent.inquirer import Inquirer
from midturn.agent.message_replies import OnOpen
from midturn.question.json_value import JsonObject


class PlannedCall(Struct, frozen=True):
    """A call that the scripted model makes."""

    id: str
    tool: str
    arguments: JsonObject = {}


class ModelReply(Struct, frozen=True):
    """A reply from the scripted model: calls, or the text that ends the run."""

    text: str = ""
    calls: tuple[PlannedCall, ...] = ()


class ProgramTool(Struct, frozen=True):
    """A tool of the scripted agent.

    Attributes:
        name: Name of the tool.
        function: Implementation: a function with annotated parameters, async or not. It asks with
            `midturn.ask` or `ask_sync`.
        needs_approval: Whether the framework must ask for approval of each call.
        refuse: The framework's guardrail or validator. It receives the arguments of a call, and
            returns the reason to refuse the call, or None.
    """

    name: str
    function: Callable[..., Any]
    needs_approval: bool = False
    refuse: Callable[[Mapping[str, Any]], str | None] | None = None


class Program(Struct, frozen=True):
    """A scripted agent.

    Attributes:
        reply: Returns the model's next reply. Its arguments are the number of replies since the
            user's message, and the contents of the tool results since then, in the order of the
            calls.
        tools: Tools of the agent.
        context: Context of the run (`deps`, `context`), for `context_tool`.
        context_tool: Function of a tool `whoami` without parameters. It receives the context in the
            framework's own way.
    """

    reply: Callable[[int, Sequence[str]], ModelReply]
    tools: Sequence[ProgramTool]
    context: str = ""
    context_tool: Callable[[str], Awaitable[str]] | None = None


class Saved:
    """Data that the framework stores between two runs, as bytes: messages, a state, or checkpoints.

    None before the first run.
    """

    def __init__(self) -> None:
        self.content: bytes | None = None


class Entry(Struct, frozen=True):
    """The inputs of one run of the program.

    A story runs the program several times, each time in a new process.

    Attributes:
        inquirer: Asks the questions. None runs the framework without midturn.
        text: The user's message.
        is_new: Whether the message differs from the message of the previous entry. If it does not,
            the program continues from its saved data.
        key: Key of the turn.
        author: Name of the user.
        on_open: How to handle a new message while questions are open.
        is_stream: Whether to run in streaming mode.
    """

    inquirer: Inquirer | None
    text: str
    is_new: bool = True
    key: str | None = None
    author: str | None = None
    on_open: OnOpen = "error"
    is_stream: bool = False


class Outcome(Struct, frozen=True):
    """Outcome of an entry: the model's last text, or None if calls wait for answers.

    In streaming mode, it also contains the events.
    """

    text: str | None
    events: Sequence[object] = ()


Capability: TypeAlias = Literal["guardrails", "images", "context", "equal ids", "lost state"]
"""Feature that not every framework has.

`equal ids`: two calls with the same id in two model replies count as two calls. `lost state`: a
repeated call is recognized by the model's call id, even if the framework lost its state.
"""


class AdapterHarness(Protocol):
    """Runs scripted agents in one framework, with its adapter or without midturn."""

    @property
    def name(self) -> str:
        """Name of the framework."""
        ...

    @property
    def missing(self) -> Mapping[Capability, str]:
        """Features that the framework does not have, each with the reason."""
        ...

    async def run(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Build the agent and run it. Read and write the state in `saved`.

        If the adapter raises `Suspended` because calls wait for answers, return an outcome whose
        text is None. Do not catch other exceptions.

        Args:
            program: The agent.
            saved: Data that the framework stores. Write it whenever the framework would store it.
            entry: The message, and the inquirer that asks the questions.
        """
        ...

    def run_sync(self, program: Program, saved: Saved, entry: Entry) -> Outcome:
        """Run the agent as `run` does, but in a thread without an event loop.

        Use the synchronous methods of the framework. The tools are synchronous.

        Args:
            program: The agent.
            saved: Data that the framework stores.
            entry: The message, and the inquirer that asks the questions.
        """
        ...

    def image(self, data: bytes) -> object:
        """Return a PNG image in the form in which the framework's tools return images.

        In the text that the model reads, a harness must show an image as
        `[image of <number of> bytes]`.

        Args:
            data: The bytes of the image.
        """
        ...

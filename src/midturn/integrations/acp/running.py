"""Runs an agent that speaks the Agent Client Protocol, with no one at its terminal: its questions wait in the inbox."""

from __future__ import annotations

from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Literal, Protocol, TypeAlias

from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, schema, text_block

from midturn import __version__
from midturn.errors import QuestionError
from midturn.events.open_question import Asker
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.external_call import Errand, NoRoom
from midturn.integrations.hooks.external_calls import Errands
from midturn.integrations.hooks.headless import AgentFailed, Headless, Inbox, Unsaid
from midturn.integrations.hooks.model_messages import Approved, Decided, FormCompleted, Refused, RepliedTo, TurnStopped, asker_name
from midturn.protocol_forms import form_of, opens, web_address_form
from midturn.question.form import Form
from midturn.question.json_value import JsonObject, members
from midturn.question.text import single_line

# ----------------------------------------------------------------------------------------------------------------------
# Which of an agent's own options a decision is


OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Option(Protocol):
    """One that an agent offers."""

    @property
    def option_id(self) -> str:
        """The agent's id for it."""
        ...

    @property
    def name(self) -> str:
        """Its label for the user."""
        ...

    @property
    def kind(self) -> OptionKind:
        """Its effect."""
        ...


def kept(options: Sequence[Option]) -> Sequence[str]:
    """Return in the agent's own words what it offers to keep of a yes that goes beyond this once, each by itself."""
    return [*dict.fromkeys(_words(option) for option in options if option.kind == "allow_always")]


def choice(outcome: Decided | None, options: Sequence[Option]) -> str | None:
    """Return the option that a decision is; None where there is none: no yes and no no goes further than what was said.

    What is kept is what was shown: where the agent offers something else by now, the yes is for this once. A yes with changed arguments is
    a no to the call as it is: what a person changed is told afterwards.
    """
    match outcome:
        case Approved(arguments=None, always=always):
            named = next((option for option in options if option.kind == "allow_always" and _words(option) == always), None)
            if named:
                return named.option_id
            wanted: OptionKind = "allow_once"
        case Refused() | RepliedTo() | Approved():
            wanted = "reject_once"
        case _:
            return None
    chosen = _first(wanted, options)
    return chosen.option_id if chosen else None


def _words(option: Option) -> str:
    return f'in the words of the agent, "{single_line(option.name)}"'


def _first(kind: OptionKind, options: Sequence[Option]) -> Option | None:
    return next((option for option in options if option.kind == kind), None)


VIA = "acp"
COMPLETED: Final = "end_turn"


class AcpRun(Headless, frozen=True, kw_only=True):
    """An agent, as it is run: in one of its modes, or in the one that it begins in."""

    mode: str | None = None

    async def go(self, prompt: str) -> str | None:
        """Run one prompt to its end; return why it ended, as the protocol says it (`end_turn`). See `Headless.run`.

        Raises:
            AgentFailed: It cannot be started, does not speak the protocol, or ends in the middle. What it asked stays open.
        """
        try:
            return await self.run(lambda process: AcpClient(self, process), prompt, COMPLETED)
        except RequestError as error:
            raise AgentFailed(f"{self.command[0]} refuses: {error}. {_details(error)}") from error


class AcpClient:
    """Our side of the connection: it asks, and shows what the agent says. It offers no files and no terminal: the agent has its own."""

    def __init__(self, run: AcpRun, process: Process) -> None:
        self.unsaid = Unsaid()
        self._run = run
        self._inbox = Inbox(run, process)
        self._name = run.command[0]
        self._session = ""
        us: Any = self
        self._connection: Any = connect_to_agent(us, process.stdin, process.stdout, use_unstable_protocol=True)

    async def begin(self) -> None:
        """Begin a session, in the mode that is wanted."""
        form, url = schema.ElicitationFormCapabilities(), schema.ElicitationUrlCapabilities()
        capabilities = schema.ClientCapabilities(elicitation=schema.ElicitationCapabilities(form=form, url=url))
        ours = schema.Implementation(name="midturn", version=__version__)
        began = await self._connection.initialize(PROTOCOL_VERSION, capabilities, ours)
        if began.agent_info:
            self._name = began.agent_info.title or began.agent_info.name
        session = await self._connection.new_session(str(self._run.cwd.absolute()))
        self._session = session.session_id
        if self._run.mode is not None:
            await self._change_mode(self._run.mode, session.modes)

    async def prompt(self, prompt: str) -> str:
        """Have a turn; return why it ended."""
        return (await self._connection.prompt(self._session, [text_block(prompt)])).stop_reason

    async def close(self) -> None:
        """Close the connection."""
        with suppress(ConnectionError):  # what was still to be sent has no reader
            await self._connection.close()

    async def _change_mode(self, mode: str, offered: schema.SessionModeState | None) -> None:
        modes = [known.id for known in offered.available_modes] if offered else []
        if mode not in modes:
            listed = f"it has {', '.join(f'`{known}`' for known in modes)}" if modes else "it has no modes"
            raise AgentFailed(f"{self._name} has no mode `{mode}`: {listed}.")
        await self._connection.set_session_mode(self._session, mode)

    # What the agent calls -----------------------------------------------------------------------------------------------------

    def on_connect(self, conn: Any) -> None:
        """Nothing is to be done then."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Show what the agent says."""
        del session_id
        if isinstance(update, schema.AgentMessageChunk) and isinstance(update.content, schema.TextContentBlock):
            self._run.say(update.content.text)

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        """Ask whether a call may run; what no one decided is cancelled, and never a no."""
        errands = self._errands(session_id)
        title = tool_call.title or tool_call.tool_call_id
        arguments: JsonObject = members(tool_call.raw_input) or {"call": title}
        try:
            errand = await errands.permission(tool_call.tool_call_id, str(tool_call.kind or "tool"), arguments, kept(options))
        except NoRoom as full:
            self.unsaid.keep_unasked(f'"{title}"', str(full))
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = await errands.wait(errand)
        chosen = choice(outcome, options)
        await self._note(title, outcome)
        await errands.close(errand, model_messages.decided(outcome) if outcome else model_messages.ELSEWHERE)
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen))

    async def create_elicitation(self, message: str, mode: schema.ElicitationMode, **_: Any) -> schema.CreateElicitationResponse:
        """Ask a form, or whether an address is opened; what could not be shown is cancelled."""
        try:
            return await self._elicited(message, mode)
        except NoRoom as full:
            self.unsaid.keep_unasked(f'"{message}"', str(full))
            return schema.CancelElicitationResponse(action="cancel")

    async def _elicited(self, message: str, mode: schema.ElicitationMode) -> schema.CreateElicitationResponse:
        session = getattr(mode, "session_id", "") or self._session
        if isinstance(mode, schema.ElicitationUrlSessionMode | schema.ElicitationUrlRequestMode):
            return await self._address(session, message, str(mode.url))
        requested: Any = mode.requested_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            elicited = form_of(requested, message)
        except QuestionError as error:
            self.unsaid.keep_unasked(f'"{message}"', str(error))
            return schema.CancelElicitationResponse(action="cancel")
        errands, errand, outcome = await self._asked(session, message, {"requested_schema": requested}, elicited.form)
        try:
            if isinstance(outcome, FormCompleted):
                if elicited.declines(outcome.answers):
                    return schema.DeclineElicitationResponse(action="decline")
                return schema.AcceptElicitationResponse(action="accept", content=elicited.content(outcome.answers))
            return _unanswered(outcome)
        finally:
            await errands.close(errand, model_messages.decided(outcome) if outcome else model_messages.ELSEWHERE)

    async def _address(self, session: str, message: str, url: str) -> schema.CreateElicitationResponse:
        errands, errand, outcome = await self._asked(session, message, {"url": url}, web_address_form(message, url))
        try:
            if isinstance(outcome, FormCompleted):
                if opens(outcome.answers):
                    return schema.AcceptElicitationResponse(action="accept")
                return schema.DeclineElicitationResponse(action="decline")
            return _unanswered(outcome)
        finally:
            await errands.close(errand, model_messages.decided(outcome) if outcome else model_messages.ELSEWHERE)

    async def _asked(self, session: str, message: str, arguments: JsonObject, form: Form) -> tuple[Errands, Errand, Decided | None]:
        errands = self._errands(session)
        errand = await errands.questions("", "ask", {"message": message, **arguments}, form)
        outcome = await errands.wait(errand)
        await self._note(message, outcome)
        return errands, errand, outcome

    async def _note(self, asked: str, outcome: Decided | None) -> None:
        """Keep what cannot be sent with a decision, and stop what a person has ended, before the agent goes on with a form that is gone."""
        self.unsaid.keep(f'"{asked}"', outcome)
        if isinstance(outcome, TurnStopped):
            await self._connection.cancel(self._session)

    def _errands(self, session: str) -> Errands:
        return self._inbox.errands(Asker(name=asker_name(self._name, "ACP agent"), session=session, via=VIA))

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Take note of something that only this agent knows of: nothing is to be done then."""

    # What is not offered ------------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Refuse what we did not say we can do."""
        if name.startswith("_"):
            raise AttributeError(name)

        async def refused(*_: Any, **__: Any) -> Any:
            raise RequestError.method_not_found(name)

        return refused


def _unanswered(outcome: Decided | None) -> schema.CreateElicitationResponse:
    if isinstance(outcome, RepliedTo):
        return schema.DeclineElicitationResponse(action="decline")
    return schema.CancelElicitationResponse(action="cancel")


def _details(error: RequestError) -> str:
    found = error.data if isinstance(error.data, str) else members(error.data).get("details") or ""
    return str(found)

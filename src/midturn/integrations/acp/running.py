"""Runs an agent over the Agent Client Protocol without a terminal. Its questions go to the
inbox.
"""

from __future__ import annotations

from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Literal, Protocol, TypeAlias

from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, schema, text_block

from midturn import __version__
from midturn.errors import QuestionError
from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.external_call import ExternalCall, QuotaExceeded
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.headless import AgentFailed, Headless, Inbox, PendingMessages
from midturn.integrations.hooks.model_messages import (
    Approved,
    Decided,
    FormCompleted,
    Refused,
    RepliedTo,
    TurnStopped,
    asker_name,
)
from midturn.protocol_forms import form_of, opens, web_address_form
from midturn.question.form import Form
from midturn.question.json_value import JsonObject, members
from midturn.question.text import single_line

# --------------------------------------------------------------------------------------------------
# The agent's option that matches a decision


OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Option(Protocol):
    """An option that an agent offers."""

    @property
    def option_id(self) -> str:
        """Id of the option."""
        ...

    @property
    def name(self) -> str:
        """Label of the option."""
        ...

    @property
    def kind(self) -> OptionKind:
        """Effect of the option, such as `allow_once`."""
        ...


def standing_permissions(options: Sequence[Option]) -> Sequence[str]:
    """Describe each standing permission that the agent offers, in the agent's own words."""
    return [
        *dict.fromkeys(
            _permission_text(option) for option in options if option.kind == "allow_always"
        )
    ]


def choice(outcome: Decided | None, options: Sequence[Option]) -> str | None:
    """Return the id of the agent's option that matches a decision, or None. The option never
    allows or refuses more than the person did.

    A standing permission is chosen only if the agent still offers the permission that the person
    saw. Otherwise, the call is allowed once. If the person changed the arguments, the call is
    refused, and a later message contains the changed arguments.
    """
    match outcome:
        case Approved(arguments=None, always=always):
            named = next(
                (
                    option
                    for option in options
                    if option.kind == "allow_always" and _permission_text(option) == always
                ),
                None,
            )
            if named:
                return named.option_id
            wanted: OptionKind = "allow_once"
        case Refused() | RepliedTo() | Approved():
            wanted = "reject_once"
        case _:
            return None
    chosen = _first_of_kind(wanted, options)
    return chosen.option_id if chosen else None


def _permission_text(option: Option) -> str:
    return f'in the words of the agent, "{single_line(option.name)}"'


def _first_of_kind(kind: OptionKind, options: Sequence[Option]) -> Option | None:
    return next((option for option in options if option.kind == kind), None)


VIA = "acp"
COMPLETED: Final = "end_turn"


class AcpRun(Headless, frozen=True, kw_only=True):
    """Settings to run an agent. `mode` is one of the agent's modes, or None for the default
    mode.
    """

    mode: str | None = None

    async def go(self, prompt: str) -> str | None:
        """Run one prompt until the agent is done. Return the protocol's stop reason, for example
        `end_turn`. See `Headless.run`.

        Raises:
            AgentFailed: The agent cannot be started, does not support the protocol, or exits
                early. The agent's questions stay open.
        """
        try:
            return await self.run(lambda process: AcpClient(self, process), prompt, COMPLETED)
        except RequestError as error:
            raise AgentFailed(
                f"{self.command[0]} refused a request: {error}. {_details(error)}"
            ) from error


class AcpClient:
    """The client side of the protocol. It asks the agent's questions and shows the agent's text.
    It does not offer access to files or a terminal, because the agent has its own access.
    """

    def __init__(self, run: AcpRun, process: Process) -> None:
        self.pending_messages = PendingMessages()
        self._run = run
        self._inbox = Inbox(run, process)
        self._name = run.command[0]
        self._session = ""
        client: Any = self
        self._connection: Any = connect_to_agent(
            client, process.stdin, process.stdout, use_unstable_protocol=True
        )

    async def begin(self) -> None:
        """Start a session in the configured mode."""
        form, url = schema.ElicitationFormCapabilities(), schema.ElicitationUrlCapabilities()
        capabilities = schema.ClientCapabilities(
            elicitation=schema.ElicitationCapabilities(form=form, url=url)
        )
        own_info = schema.Implementation(name="midturn", version=__version__)
        initialized = await self._connection.initialize(PROTOCOL_VERSION, capabilities, own_info)
        if initialized.agent_info:
            self._name = initialized.agent_info.title or initialized.agent_info.name
        session = await self._connection.new_session(str(self._run.cwd.absolute()))
        self._session = session.session_id
        if self._run.mode is not None:
            await self._change_mode(self._run.mode, session.modes)

    async def prompt(self, prompt: str) -> str:
        """Run a turn and return its stop reason."""
        return (await self._connection.prompt(self._session, [text_block(prompt)])).stop_reason

    async def close(self) -> None:
        """Close the connection."""
        with suppress(
            ConnectionError
        ):  # the agent has disconnected, so unsent messages are dropped
            await self._connection.close()

    async def _change_mode(self, mode: str, offered: schema.SessionModeState | None) -> None:
        modes = [known.id for known in offered.available_modes] if offered else []
        if mode not in modes:
            available = (
                f"Available modes: {', '.join(f'`{known}`' for known in modes)}"
                if modes
                else "It has no modes"
            )
            raise AgentFailed(f"{self._name} has no mode `{mode}`. {available}.")
        await self._connection.set_session_mode(self._session, mode)

    # Methods that the agent calls
    # ----------------------------------------------------------------------------------------------

    def on_connect(self, conn: Any) -> None:
        """Ignore the connection event."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Show the agent's text."""
        del session_id
        if isinstance(update, schema.AgentMessageChunk) and isinstance(
            update.content, schema.TextContentBlock
        ):
            self._run.say(update.content.text)

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        """Ask whether a call may run. If no person decides, the request is cancelled, not
        refused.
        """
        calls = self._calls(session_id)
        title = tool_call.title or tool_call.tool_call_id
        arguments: JsonObject = members(tool_call.raw_input) or {"call": title}
        try:
            external_call = await calls.permission(
                tool_call.tool_call_id,
                str(tool_call.kind or "tool"),
                arguments,
                standing_permissions(options),
            )
        except QuotaExceeded as full:
            self.pending_messages.keep_unasked(f'"{title}"', str(full))
            return schema.RequestPermissionResponse(
                outcome=schema.DeniedOutcome(outcome="cancelled")
            )
        outcome = await calls.wait(external_call)
        chosen = choice(outcome, options)
        await self._keep_message(title, outcome)
        await calls.close(
            external_call,
            model_messages.recorded_content(outcome) if outcome else model_messages.ELSEWHERE,
        )
        if chosen is None:
            return schema.RequestPermissionResponse(
                outcome=schema.DeniedOutcome(outcome="cancelled")
            )
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen)
        )

    async def create_elicitation(
        self, message: str, mode: schema.ElicitationMode, **_: Any
    ) -> schema.CreateElicitationResponse:
        """Ask the questions of a form, or ask whether to open a web address. If the form cannot
        be shown, the request is cancelled.
        """
        try:
            return await self._elicit(message, mode)
        except QuotaExceeded as full:
            self.pending_messages.keep_unasked(f'"{message}"', str(full))
            return schema.CancelElicitationResponse(action="cancel")

    async def _elicit(
        self, message: str, mode: schema.ElicitationMode
    ) -> schema.CreateElicitationResponse:
        session = getattr(mode, "session_id", "") or self._session
        if isinstance(mode, schema.ElicitationUrlSessionMode | schema.ElicitationUrlRequestMode):
            return await self._elicit_url(session, message, str(mode.url))
        requested: Any = mode.requested_schema.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        try:
            elicited = form_of(requested, message)
        except QuestionError as error:
            self.pending_messages.keep_unasked(f'"{message}"', str(error))
            return schema.CancelElicitationResponse(action="cancel")
        calls, external_call, outcome = await self._ask_form(
            session, message, {"requested_schema": requested}, elicited.form
        )
        try:
            if isinstance(outcome, FormCompleted):
                if elicited.declines(outcome.answers):
                    return schema.DeclineElicitationResponse(action="decline")
                return schema.AcceptElicitationResponse(
                    action="accept", content=elicited.content(outcome.answers)
                )
            return _unanswered(outcome)
        finally:
            await calls.close(
                external_call,
                model_messages.recorded_content(outcome) if outcome else model_messages.ELSEWHERE,
            )

    async def _elicit_url(
        self, session: str, message: str, url: str
    ) -> schema.CreateElicitationResponse:
        calls, external_call, outcome = await self._ask_form(
            session, message, {"url": url}, web_address_form(message, url)
        )
        try:
            if isinstance(outcome, FormCompleted):
                if opens(outcome.answers):
                    return schema.AcceptElicitationResponse(action="accept")
                return schema.DeclineElicitationResponse(action="decline")
            return _unanswered(outcome)
        finally:
            await calls.close(
                external_call,
                model_messages.recorded_content(outcome) if outcome else model_messages.ELSEWHERE,
            )

    async def _ask_form(
        self, session: str, message: str, arguments: JsonObject, form: Form
    ) -> tuple[ExternalCallService, ExternalCall, Decided | None]:
        calls = self._calls(session)
        external_call = await calls.questions("", "ask", {"message": message, **arguments}, form)
        outcome = await calls.wait(external_call)
        await self._keep_message(message, outcome)
        return calls, external_call, outcome

    async def _keep_message(self, asked: str, outcome: Decided | None) -> None:
        """Queue a message about the outcome for the agent's next prompt. If a person ended the
        turn, cancel it before the agent continues.
        """
        self.pending_messages.keep(f'"{asked}"', outcome)
        if isinstance(outcome, TurnStopped):
            await self._connection.cancel(self._session)

    def _calls(self, session: str) -> ExternalCallService:
        return self._inbox.calls(
            AskingAgent(name=asker_name(self._name, "ACP agent"), session=session, via=VIA)
        )

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore notifications that are not part of the protocol."""

    # Methods of the protocol that this client does not offer
    # ----------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Reject all other methods of the protocol."""
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

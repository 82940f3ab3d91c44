"""`--answer TOOL.QUESTION=VALUE`: what can be wrong with it before a turn begins, and which of them no question used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from midturn.compose.tools import known_tools
from midturn.config.assign import ANSWER, parse_key
from midturn.config.delta import read_delta
from midturn.config.settings import Settings
from midturn.core.events import ConfigDelta, Event, InquiryAnswered, InquiryCancelled, InquiryRedacted, InquiryRequest, ToolCallRequest
from midturn.core.names import ASK_USER, BUILT_IN_TOOLS
from midturn.core.question.answer_type import SecretType
from midturn.core.stream import pairs
from midturn.core.suggestion import did_you_mean
from midturn.errors import ConfigError

ANYTHING = "*"


class AnswerFlag(Struct, frozen=True):
    """Which question a flag answers; `'*'` stands for any of the tool."""

    tool: str
    question: str

    @property
    def name(self) -> str:
        """How it is written."""
        return f"{self.tool}.{self.question}"


def answer_flag(text: str) -> AnswerFlag:
    """Return what a checked flag is about."""
    name, _, _ = text.partition("=")
    tool, _, question = name.partition(".")
    return AnswerFlag(tool, question)


def check_answers(given: Iterable[str], settings: Settings, events: Sequence[Event]) -> None:
    """Refuse answers that nobody can ask for, and secrets.

    Raises:
        ConfigError: There is no such tool, a built-in tool never asks such a question, or it is known to be a secret.
    """
    secrets = _secrets(events)
    for answer in map(answer_flag, given):
        _check_tool(answer, settings)
        _check_question(answer)
        if (answer.tool, answer.question) in secrets:
            raise ConfigError(
                f"{ANSWER} {answer.name}: this is a secret, and the command line is no place for one: it stays in your shell's history, "
                "and would be written down with the conversation. Answer it at its prompt."
            )


def unused_answers(turn: Sequence[Event]) -> list[str]:
    """Return the names of the answers that this turn's flags gave and that no question used, in the order given."""
    given = list(_recorded(turn))
    used = set(_used(turn))
    return [answer.name for answer in given if answer not in used and not _is_covered(answer, used)]


def _check_tool(answer: AnswerFlag, settings: Settings) -> None:
    tools = known_tools(settings)
    served = any(answer.tool.startswith(f"{server}_") for server in settings.mcp)
    renamed = any(answer.tool in (tool.rename, tool.name) for tool in settings.tools.values() if tool.source == "mcp")
    if answer.tool not in tools and not served and not renamed:
        raise ConfigError(f"{ANSWER} {answer.name}: there is no tool `{answer.tool}`.{did_you_mean(answer.tool, tools)}")


def _check_question(answer: AnswerFlag) -> None:
    if answer.tool == ASK_USER or answer.question == ANYTHING:
        return
    asked = BUILT_IN_TOOLS.get(answer.tool)
    if asked is not None and answer.question not in asked:
        asks = ", ".join(f"`{question}`" for question in asked) or "nothing"
        raise ConfigError(f"{ANSWER} {answer.name}: `{answer.tool}` never asks `{answer.question}`; it asks {asks}.")


def _secrets(events: Sequence[Event]) -> set[tuple[str, str]]:
    asked = (event for event in events if isinstance(event, InquiryRequest) and isinstance(event.question.answer_type, SecretType))
    return {(event.source.name or ASK_USER, event.question_id) for event in asked}


def _recorded(turn: Sequence[Event]) -> Iterable[AnswerFlag]:
    deltas = (read_delta(event.delta) for event in turn if isinstance(event, ConfigDelta))
    for assignment in (one for delta in deltas if delta for one in delta.flags if one.origin == ANSWER):
        _, _, tool, _, question, _ = parse_key(assignment.key, ANSWER)
        yield AnswerFlag(tool, question)


def _used(turn: Sequence[Event]) -> Iterable[AnswerFlag]:
    tools = {event.event_id: event.name for event in turn if isinstance(event, ToolCallRequest)}
    for request, response in pairs(turn):
        match response:
            case InquiryAnswered(answered_by=who) | InquiryRedacted(answered_by=who) if who and who.origin == ANSWER:
                yield AnswerFlag(tools.get(request.call, ""), request.question_id)
            case InquiryCancelled(reason="invalid_static_answer"):  # a flag holds before any file: it was used, and did not fit
                yield AnswerFlag(tools.get(request.call, ""), request.question_id)
            case _:
                pass


def _is_covered(answer: AnswerFlag, used: set[AnswerFlag]) -> bool:
    return answer.question == ANYTHING and any(one.tool == answer.tool for one in used)

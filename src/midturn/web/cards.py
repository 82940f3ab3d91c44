"""Cards of the inbox: a preview of each open question. A card that shows the whole question has
buttons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from midturn.events.open_question import OpenQuestion
from midturn.question.answer_type import BooleanType, MultiSelectType, SelectType
from midturn.question.json_text import compact
from midturn.question.json_value import Json
from midturn.terminal.prompts.changes import FileChanges, change_in, change_of
from midturn.terminal.prompts.keys import scalar_text

LineKind: TypeAlias = Literal["file", "add", "del", "text", "call"]
MAX_LINES: Final = 3
MAX_LINE_CHARS: Final = 160
MAX_OPTIONS: Final = 4
MAX_BUTTON_CHARS: Final = 24
SEARCH_FROM: Final = 10
"""The inbox has a search form if there are more open questions than this."""


class CardLine(Struct, frozen=True):
    """One line of the preview."""

    kind: LineKind
    text: str


class InboxCard(Struct, frozen=True):
    """A card of the inbox.

    Args:
        lines: Beginning of the call, result or context.
        options: Labels of the first options.
        more: Number of other options.
        buttons: Answers that can be given without opening the question, as pairs of value and
            label.
    """

    lines: tuple[CardLine, ...] = ()
    options: tuple[str, ...] = ()
    more: int = 0
    buttons: tuple[tuple[str, str], ...] = ()


def card_of(question: OpenQuestion) -> InboxCard:
    """Return the card of a question."""
    buttons = tuple(_buttons(question))
    options: tuple[str, ...] = ()
    kind = question.question.answer_type
    if isinstance(kind, SelectType | MultiSelectType) and not buttons:
        options = tuple(scalar_text(option.value) for option in kind.options)
    lines = tuple(
        CardLine(line.kind, _truncated(line.text))
        for line in islice(_preview_lines(question), MAX_LINES + 1)
    )
    return InboxCard(
        lines,
        tuple(map(_truncated, options[:MAX_OPTIONS])),
        max(0, len(options) - MAX_OPTIONS),
        buttons,
    )


def _buttons(question: OpenQuestion) -> Iterator[tuple[str, str]]:
    """Yield the buttons of a card. A question has no buttons if it has a context or arguments, or
    needs several people.
    """
    asked = question.question
    is_bare = not (asked.context or question.problem or question.form or question.asker)
    is_alone = question.whose is None or question.whose.needed == 1
    if (
        question.kind != "tool"
        or not is_bare
        or not is_alone
        or not (_shows_all_arguments(question) or not question.arguments)
    ):
        return
    match asked.answer_type:
        case BooleanType():
            yield from (("no", "No"), ("yes", "Yes"))
        case SelectType(options=options, allow_other=False) if len(options) <= MAX_OPTIONS:
            if all(
                len(scalar_text(option.value)) <= MAX_BUTTON_CHARS
                and not option.description
                and not option.preview
                for option in options
            ):
                yield from (
                    (str(place), scalar_text(option.value)) for place, option in enumerate(options)
                )
        case _:
            pass


def _shows_all_arguments(question: OpenQuestion) -> bool:
    """Return whether the question shows all arguments of its call. This is the case if the model
    asked it, because the arguments are the question.
    """
    return question.source.source == "assistant"


def _preview_lines(question: OpenQuestion) -> Iterator[CardLine]:
    context = question.question.context or ""
    match question.kind:
        case "run":
            yield from _call(question.arguments)
        case "deliver":
            yield from _text_lines(question.content or "")
        case _ if context:
            change = change_in(context)
            yield from _text_lines(context) if change is None else _change(change)
        case _ if question.arguments and not _shows_all_arguments(question):
            yield CardLine("call", f"{question.tool} {compact(question.arguments)}")
        case _:
            pass


def _call(arguments: Json) -> Iterator[CardLine]:
    if change := change_of(arguments):
        yield from _change(change)
    elif isinstance(arguments, Mapping):
        for name, value in arguments.items():
            first, *more = (value if isinstance(value, str) else compact(value)).split("\n")
            yield CardLine("call", f"{name}: {first}{' …' if more else ''}")
    elif arguments is not None:
        yield CardLine("call", compact(arguments))


def _change(change: FileChanges) -> Iterator[CardLine]:
    for file in change.files:
        yield CardLine("file", f"{file.path}  +{file.added} −{file.removed}")  # noqa: RUF001  a minus
        for row in file.rows:
            if row.kind in ("add", "del"):
                yield CardLine("add" if row.kind == "add" else "del", row.text)


def _text_lines(text: str) -> Iterator[CardLine]:
    """Yield the lines of Markdown text without markup, or the changed lines of a diff."""
    is_diff = False
    for line in text.splitlines():
        if line.startswith("```"):
            is_diff = line.strip() == "```diff"
        elif not is_diff and (
            words := line.strip().lstrip("#>").replace("**", "").replace("`", "").strip()
        ):
            yield CardLine("text", words)
        elif is_diff and line.startswith(("+", "-")) and not line.startswith(("--- ", "+++ ")):
            yield CardLine("add" if line.startswith("+") else "del", line[1:])


def _truncated(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"


# --------------------------------------------------------------------------------------------------
# Filter


class QuestionFilter(Struct, frozen=True):
    """A filter of the inbox.

    Args:
        words: Words that the question must contain.
        who: Name of the agent, directory or tool.
        mine: Only questions assigned to `user`.
    """

    words: str = ""
    who: str = ""
    mine: bool = False
    user: str | None = None

    @classmethod
    def of(cls, query: Mapping[str, Any], user: str | None) -> QuestionFilter:
        """Return the filter that a query string describes."""
        return cls(
            str(query.get("q", "")), str(query.get("who", "")), query.get("mine") == "yes", user
        )

    @property
    def is_all(self) -> bool:
        """Whether the filter matches every question."""
        return not (self.words.strip() or self.who or self.mine)

    def among(self, questions: Iterable[OpenQuestion]) -> list[OpenQuestion]:
        """Return the questions that match."""
        return [question for question in questions if self._matches(question)]

    def _matches(self, question: OpenQuestion) -> bool:
        if self.who and self.who not in search_names(question):
            return False
        if self.mine and not (question.whose and self.user and question.whose.is_for(self.user)):
            return False
        asker = question.asker
        said = (
            question.question.text,
            question.tool,
            question.source.header,
            *(() if asker is None else (asker.name, asker.cwd)),
        )
        text = " ".join(said).casefold()
        return all(word in text for word in self.words.casefold().split())


def search_names(question: OpenQuestion) -> list[str]:
    """Return the names by which a question can be filtered: its agent, its directory, and its tool
    or other source.
    """
    asker = question.asker
    return [
        name
        for name in (
            asker.name if asker else "",
            asker.cwd if asker else "",
            question.source.header,
        )
        if name
    ]

"""One open question in the list: what is decided, at a glance; and an answer where the card shows all of it."""

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
_LINES: Final = 3
_LONGEST: Final = 160
_OPTIONS: Final = 4
_SHORT: Final = 24  # characters of an option that is a button
MANY: Final = 10
"""From more questions than that on one searches."""


class CardLine(Struct, frozen=True):
    """One line of what a question is about."""

    kind: LineKind
    text: str


class Card(Struct, frozen=True):
    """What a card says beside the question: the beginning of what it is about, its options, and how many more there are.

    `buttons` are the answers that may be given without opening it, each with what it sends.
    """

    lines: tuple[CardLine, ...] = ()
    options: tuple[str, ...] = ()
    more: int = 0
    buttons: tuple[tuple[str, str], ...] = ()


def card_of(question: OpenQuestion) -> Card:
    """Return the card of a question."""
    buttons = tuple(_buttons(question))
    options: tuple[str, ...] = ()
    kind = question.question.answer_type
    if isinstance(kind, SelectType | MultiSelectType) and not buttons:
        options = tuple(scalar_text(option.value) for option in kind.options)
    lines = tuple(CardLine(line.kind, _cut(line.text)) for line in islice(_about(question), _LINES + 1))
    return Card(lines, tuple(map(_cut, options[:_OPTIONS])), max(0, len(options) - _OPTIONS), buttons)


def _buttons(question: OpenQuestion) -> Iterator[tuple[str, str]]:
    """Yield what may be answered from the list: what has a context, arguments or other people's votes is opened first."""
    asked = question.question
    is_bare = not (asked.context or question.problem or question.form or question.asker)
    is_alone = question.whose is None or question.whose.needed == 1
    if question.kind != "tool" or not is_bare or not is_alone or not (_says_its_arguments(question) or not question.arguments):
        return
    match asked.answer_type:
        case BooleanType():
            yield from (("no", "No"), ("yes", "Yes"))
        case SelectType(options=options, allow_other=False) if len(options) <= _OPTIONS:
            if all(len(scalar_text(option.value)) <= _SHORT and not option.description and not option.preview for option in options):
                yield from ((str(place), scalar_text(option.value)) for place, option in enumerate(options))
        case _:
            pass


def _says_its_arguments(question: OpenQuestion) -> bool:
    """Say whether the question is all that the call holds: the model's own questions are their arguments."""
    return question.source.source == "assistant"


def _about(question: OpenQuestion) -> Iterator[CardLine]:
    context = question.question.context or ""
    match question.kind:
        case "run":
            yield from _call(question.arguments)
        case "deliver":
            yield from _words(question.content or "")
        case _ if context:
            change = change_in(context)
            yield from _words(context) if change is None else _change(change)
        case _ if question.arguments and not _says_its_arguments(question):
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


def _words(text: str) -> Iterator[CardLine]:
    """Yield lines of Markdown without its marks; of a diff, the lines that go and come."""
    is_diff = False
    for line in text.splitlines():
        if line.startswith("```"):
            is_diff = line.strip() == "```diff"
        elif not is_diff and (words := line.strip().lstrip("#>").replace("**", "").replace("`", "").strip()):
            yield CardLine("text", words)
        elif is_diff and line.startswith(("+", "-")) and not line.startswith(("--- ", "+++ ")):
            yield CardLine("add" if line.startswith("+") else "del", line[1:])


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


# ----------------------------------------------------------------------------------------------------------------------
# Finding some of many


class Wanted(Struct, frozen=True):
    """Which open questions one looks for: words that stand in them, who asks, and whether only one's own."""

    words: str = ""
    who: str = ""
    mine: bool = False
    user: str | None = None

    @classmethod
    def of(cls, query: Mapping[str, Any], user: str | None) -> Wanted:
        """Read it from an address."""
        return cls(str(query.get("q", "")), str(query.get("who", "")), query.get("mine") == "yes", user)

    @property
    def is_all(self) -> bool:
        """Whether all are wanted."""
        return not (self.words.strip() or self.who or self.mine)

    def among(self, questions: Iterable[OpenQuestion]) -> list[OpenQuestion]:
        """Return those that are wanted."""
        return [question for question in questions if self._fits(question)]

    def _fits(self, question: OpenQuestion) -> bool:
        if self.who and self.who not in names_of(question):
            return False
        if self.mine and not (question.whose and self.user and question.whose.is_for(self.user)):
            return False
        asker = question.asker
        said = (question.question.text, question.tool, question.source.header, *(() if asker is None else (asker.name, asker.cwd)))
        text = " ".join(said).casefold()
        return all(word in text for word in self.words.casefold().split())


def names_of(question: OpenQuestion) -> list[str]:
    """Return under which names one looks for a question: its agent, where it works, and the tool or who else asks."""
    asker = question.asker
    return [name for name in (asker.name if asker else "", asker.cwd if asker else "", question.source.header) if name]

"""Plain dialogs for every kind of prompt, line by line."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, assert_never

from msgspec import UNSET

from midturn.events.prompt import FormSubject, reviewed_places
from midturn.question import answer_type as answers
from midturn.question.decision_words import YES_OR_NO
from midturn.question.json_value import Json, SecretValue
from midturn.question.reply import Answered, Reply, Submitted, WentBack
from midturn.terminal.prompts import accept as accepting, keys as keyboard
from midturn.terminal.prompts.answer_text import (
    choice_text,
    expected,
    number_text,
    shape,
    wanted,
    wants_number,
    wants_text,
)
from midturn.terminal.prompts.body import PLAIN_GUTTER, preview_of
from midturn.terminal.prompts.cells import glued, hang
from midturn.terminal.prompts.plain_scene import (
    EDITOR,
    Dialog,
    DraftField,
    Entered,
    FieldText,
    PromptBase,
    Saying,
    command_in,
    draft_rows,
    fill,
    read_text,
    spoken_key,
    unescaped,
)

# --------------------------------------------------------------------------------------------------
# Lists of options in pages of 20, with a filter. Numbers of options never change.


PAGE = 20
_PREVIEW_ROWS = 8
"""Maximum number of rows of a preview in the list. A command shows the whole preview."""


class PrintedOptions:
    """A list of options that is printed page by page. `other` is the selected free text."""

    def __init__(
        self,
        answer_type: answers.SelectType | answers.MultiSelectType,
        width: int,
        other: str | None = None,
    ) -> None:
        self.options = answer_type.options
        self.other = other
        self._allows_other = answer_type.allow_other
        self._width = width
        self._places = list(range(len(self.options)))
        self._next = 0

    @property
    def pages(self) -> bool:
        """Whether the options need more than one page."""
        return len(self.options) > PAGE

    def page(self, marks: frozenset[int] | None = None) -> list[str]:
        """Return the next page. The first page follows the last one. `marks` draws check boxes."""
        start = self._next if self._next < len(self._places) else 0
        places = self._places[start : start + PAGE]
        self._next = start + PAGE
        rest = max(0, len(self._places) - self._next)
        more = [f"  ({rest} more: press m; filter with /text)"] if rest else []
        return [
            *(row for place in places for row in self._rows(place, marks)),
            *self._own_words(marks),
            *more,
        ]

    def filter(self, words: str, marks: frozenset[int] | None = None) -> list[str]:
        """Show only options that contain all words. An empty string shows all options again."""
        found = [hit.place for hit in accepting.Matcher(self.options).find(words)]
        self._places, self._next = found, 0
        return [f"  {len(found)} match", *self.page(marks)]

    def again(self, marks: frozenset[int] | None = None) -> list[str]:
        """Return the first page of all options."""
        self._places, self._next = list(range(len(self.options))), 0
        return self.page(marks)

    def _own_words(self, marks: frozenset[int] | None) -> list[str]:
        """Return the row for free text, below the options, with the current text."""
        if not self._allows_other:
            return []
        box = "" if marks is None else "[ ] " if self.other is None else "[x] "
        text = keyboard.OTHER.help if self.other is None else keyboard.one_line(self.other)
        return hang(f"  {keyboard.OTHER.key}. {box}{text}", self._width, "     ")

    def _rows(self, place: int, marks: frozenset[int] | None) -> list[str]:
        option = self.options[place]
        box = "" if marks is None else "[x] " if place in marks else "[ ] "
        meaning = keyboard.description(option)
        named = f"  {place + 1}. {box}{keyboard.label(option)}{f' - {meaning}' if meaning else ''}"
        return [
            *hang(named, self._width, "     "),
            *preview_of(option, self._width, f"     {PLAIN_GUTTER}", _PREVIEW_ROWS),
        ]


Marks: TypeAlias = frozenset[int] | None

_MIN_OPTIONS_FOR_BLANKS = 5
"""If a list has at least this many options, the help mentions that spaces can separate numbers."""
_PAGES_HELP = (
    "m - the next options",
    "/text - only options with this text",
    "/ - all options again",
)
_OTHER = "Your own words (Enter or :c to return to the list):"


def select(scene: PromptBase, answer_type: answers.SelectType) -> Dialog:
    """Ask for one option by number or name."""
    listing = PrintedOptions(answer_type, scene.width, keyboard.first_other(scene.prompt))
    start = keyboard.initial(scene.prompt)
    enter = "" if start is UNSET else _enter(scene, answer_type, start)
    ask = f"Type {_one_of(len(answer_type.options))}; {scene.keys()}{enter}:"
    rows = [*scene.opening(), *listing.page()]
    while True:
        typed = (yield scene.say(rows, ask)).strip()
        try:
            if not typed and enter and start is not UNSET:
                return Answered(accepting.accept(scene.prompt, start))
            done = yield from _act(scene, listing, typed, None)
            if isinstance(done, str):
                return Answered(accepting.accept(scene.prompt, {"other": done}))
            if done is None:
                return Answered(
                    accepting.accept(
                        scene.prompt,
                        answer_type.options[accepting.choose(typed, answer_type.options)].value,
                    )
                )
        except accepting.NotAccepted as error:
            done = scene.wrapped(error.lines)
        if not isinstance(done, list):
            return done
        rows = done


def _one_of(count: int) -> str:
    """Return the hint for selecting one of `count` options."""
    if count == 1:
        return "1 or its name"
    return accepting.numbers(count, "a number 1-{} or a name") + (
        ", or a name" if count == 2 else ""  # noqa: PLR2004  a pair
    )


def multi_select(scene: PromptBase, answer_type: answers.MultiSelectType) -> Dialog:
    """Ask for any number of options: numbers, ranges, names, `all` or `none`."""
    listing = PrintedOptions(answer_type, scene.width, keyboard.first_other(scene.prompt))
    start, marks = keyboard.initial(scene.prompt), keyboard.marked(scene.prompt)
    enters = start is not UNSET
    rows = [*scene.opening(), *listing.page(marks)]
    while True:
        count = len(marks) + (listing.other is not None)
        enter = f" (Enter keeps the {count} marked)" if enters else ""
        limits = f" ({limited})" if (limited := accepting.bounds(answer_type)) else ""
        typed = (
            yield scene.say(
                rows,
                f"Type {_several_of(len(answer_type.options))}{limits}; {scene.keys()}{enter}:",
            )
        ).strip()
        try:
            done = None if not typed and enters else (yield from _act(scene, listing, typed, marks))
            if isinstance(done, str):
                listing.other, enters = done, True
                done = listing.again(marks)
            elif done is None:
                chosen = accepting.choose_many(typed, answer_type.options) if typed else marks
                return Answered(
                    accepting.accept(
                        scene.prompt,
                        accepting.chosen_values(listing.options, chosen, listing.other),
                    )
                )
        except accepting.NotAccepted as error:
            done = scene.wrapped(error.lines)
        if not isinstance(done, list):
            return done
        rows = done


def _several_of(count: int) -> str:
    """Return the hint for selecting several of `count` options."""
    return (
        "1 or none"
        if count == 1
        else f"numbers such as {accepting.example_numbers(count)}, or all, or none"
    )


def _act(
    scene: PromptBase, listing: PrintedOptions, typed: str, marks: Marks
) -> Generator[Saying, str, Reply | list[str] | str | None]:
    """Handle a line that does not select options.

    Return a reply, rows to print, typed free text, or None.
    """
    if not typed:
        return scene.wrapped(["There is no default: type a number or a name."])
    if listing.pages and (typed == "m" or typed.startswith("/")):
        return listing.page(marks) if typed == "m" else listing.filter(typed[1:], marks)
    command = keyboard.find(scene.commands, typed) or (
        None
        if accepting.is_option(typed, listing.options)
        else keyboard.find_named(scene.commands, typed)
    )
    if command is None:
        return None
    if command is keyboard.HELP:
        return [*_help(scene, listing, several=marks is not None), *scene.help(scene.commands)]
    if command.does is not keyboard.KeyStep.OTHER:
        done = yield from scene.act(command)
        return [*done, *listing.again(marks)] if isinstance(done, list) else done
    other = yield from read_text(scene.say((), _OTHER, "text"))
    return other.strip() or listing.again(marks) if other else listing.again(marks)


def _help(scene: PromptBase, listing: PrintedOptions, *, several: bool) -> list[str]:
    """Return the help for input at a list. It does not include the keys."""
    count = len(listing.options)
    one = [f"{accepting.numbers(count, '1 to {}')}, or a name - choose that option"]
    example = accepting.example_numbers(count)
    many = [
        (
            f"{example}{' or 1 3 5' if count >= _MIN_OPTIONS_FOR_BLANKS else ''}, or names with"
            " commas - choose these"
        ),
        "all, none - choose every option, or no option",
    ]
    numbered = any(keyboard.scalar_text(option.value).isdecimal() for option in listing.options)
    exact = (
        ["2. - option 2, even if 2 is also a name; =2 - the option with that name"]
        if numbered
        else []
    )
    pages = list(_PAGES_HELP) if listing.pages else []
    return [
        row
        for line in (*(many if several else one), *exact, *pages)
        for row in hang(f"  {line}", scene.width, "      ")
    ]


def _enter(scene: PromptBase, answer_type: answers.SelectType, start: Json) -> str:
    """Return the answer that Enter submits: the number of an option, or free text."""
    if keyboard.skipped(scene.prompt):
        return " (Enter to skip)"
    place = min(keyboard.marked(scene.prompt), default=None)
    if place is not None:
        return f" (Enter for {place + 1})"
    return f" (Enter for '{scene.short(choice_text(start))}')" if answer_type.allow_other else ""


# --------------------------------------------------------------------------------------------------
# Text, JSON and secrets, line by line


_EMPTY = keyboard.Command("empty", "send an empty answer", Answered(""), word="text")


def text(scene: PromptBase) -> Dialog:
    """Ask for text. Enter alone submits the default, or empty text if there is no default."""
    start = keyboard.initial(scene.prompt)
    draft = FieldText(start, kept=True) if isinstance(start, str) else FieldText()
    return (yield from _text(scene, draft, ""))


def _text(scene: PromptBase, draft: FieldText, about: str) -> Dialog:
    """Ask for text; `about` states its constraints. Empty text may have to be confirmed."""
    empty = accepting.empty_once(scene.prompt)

    def answered(typed: str) -> Json:
        value = accepting.accept(scene.prompt, typed)
        if not typed and empty.now():
            raise accepting.NotAccepted([accepting.EMPTY_TEXT])
        return value

    offered = _offered(scene.commands, (_EMPTY,) if draft.text else ())
    noun = f"your answer, {about}" if about else "your answer"
    return (
        yield from _fill(
            scene, DraftField(noun, answered, offered), draft, _multiline("Draft:", draft.text)
        )
    )


def schema(scene: PromptBase, answer_type: answers.SchemaType) -> Dialog:
    """Ask for JSON.

    Invalid input can be edited. Up to three errors are displayed with their paths.
    """
    start = keyboard.initial(scene.prompt)
    about = expected(answer_type.schema)
    if wants_number(answer_type.schema):
        draft = FieldText() if start is UNSET else FieldText(number_text(start), kept=True)
        field = DraftField(
            f"your answer, {about}",
            lambda typed: accepting.accept_number(scene.prompt, typed),
            _offered(scene.commands),
        )
        return (yield from _fill(scene, field, draft, []))
    if wants_text(answer_type.schema):
        return (
            yield from _text(
                scene, FieldText(start, kept=True) if isinstance(start, str) else FieldText(), about
            )
        )
    draft = (
        FieldText(shape(answer_type.schema))
        if start is UNSET
        else FieldText(keyboard.pretty(start), kept=True)
    )
    field = DraftField(
        "your answer",
        lambda typed: accepting.accept_json(scene.prompt, typed),
        _offered(scene.commands),
        ".json",
    )
    title = "Answer in JSON. Draft:" if draft.kept else "Answer in JSON of this shape:"
    rows = (
        draft_rows(title, draft.text)
        if draft.text
        else [f"Answer with {wanted(answer_type.schema)}."]
    )
    return (yield from _fill(scene, field, draft, rows))


def secret(scene: PromptBase) -> Dialog:
    """Ask for a secret. Neither the text nor its length is displayed."""
    keys = ", ".join(
        glued(f":{spoken_key(command)}", scene.width - 4) for command in scene.commands
    )
    rows = scene.opening()
    empty = accepting.empty_once(scene.prompt)
    while True:
        typed = yield scene.say(rows, f"Hidden input ({keys}):", "hidden")
        command = command_in(typed, scene.commands)
        if command is None and not typed and empty.now():
            rows = scene.wrapped([f"{accepting.EMPTY_SECRET}."])
            continue
        if command is None:
            return Answered(SecretValue(unescaped(typed)))
        done = (
            scene.help(scene.commands, ":")
            if command is keyboard.HELP
            else (yield from scene.act(command))
        )
        if not isinstance(done, list):
            return done
        rows = done


def _fill(scene: PromptBase, field: DraftField, draft: FieldText, about: list[str]) -> Dialog:
    """Ask until the text is valid.

    `about` are rows below the question: a description of the expected input, or the draft.
    """
    rows = [*scene.opening(), *about]
    while True:
        entered = yield from fill(field, draft, rows, scene.width)
        if isinstance(entered, Entered):
            return Answered(entered.value)
        command, draft = entered
        if isinstance(command.does, keyboard.AsJson):
            return keyboard.AsJson(draft.text if draft.kept and draft.text else None)
        done = (
            scene.help(field.offered, ":")
            if command is keyboard.HELP
            else (yield from scene.act(command))
        )
        if not isinstance(done, list):
            return done
        rows = (
            done
            if command is keyboard.HELP or command.does is keyboard.KeyStep.VIEW
            else [*done, *about]
        )


def _offered(own: keyboard.Commands, more: keyboard.Commands = ()) -> keyboard.Commands:
    """Return the commands of a text field, with the editor listed before the help."""
    return (
        *(command for command in own if command is not keyboard.HELP),
        *more,
        EDITOR,
        keyboard.HELP,
    )


def _multiline(title: str, text: str) -> list[str]:
    return draft_rows(title, text) if "\n" in text else []


def plain_dialog(scene: PromptBase) -> Dialog:  # noqa: PLR0911 (one for each type of answer)
    """Return the dialog for the prompt's kind and answer type."""
    if scene.prompt.kind == "review":
        return review(scene)
    match scene.prompt.question.answer_type:
        case answers.BooleanType():
            return boolean(scene)
        case answers.SelectType() as answer_type:
            return select(scene, answer_type)
        case answers.MultiSelectType() as answer_type:
            return multi_select(scene, answer_type)
        case answers.TextType():
            return text(scene)
        case answers.SecretType():
            return secret(scene)
        case answers.SchemaType() as answer_type:
            return schema(scene, answer_type)
        case _ as other:
            assert_never(other)


def boolean(scene: PromptBase) -> Dialog:
    """Ask until a key is typed.

    Enter submits the default answer to a question, but never approves a call.
    """
    default = keyboard.yes_no_default(scene.prompt)
    enter = (
        "-"
        if keyboard.skipped(scene.prompt)
        else ""
        if default is None
        else "y"
        if default
        else "n"
    )
    ask = f"Type {scene.keys()}{f' (Enter for {enter})' if enter else ''}:"
    rows = scene.opening()
    while True:
        typed = (yield scene.say(rows, ask)).strip()
        command = (
            keyboard.find_named(scene.commands, typed)
            if typed
            else keyboard.find(scene.commands, enter)
        )
        if command is None:
            rows = (
                []
                if typed == "q" and scene.has_paged
                else hang(_refusal(typed, scene.commands), scene.width, "  ")
            )
            continue
        done = yield from scene.act(command)
        if not isinstance(done, list):
            return done
        rows = done


def _refusal(typed: str, offered: keyboard.Commands) -> str:
    if not typed:
        return f"There is no default: type one of {', '.join(command.key for command in offered)}."
    return f"{keyboard.one_line(typed)} is not an option; type ? for help."


def review(scene: PromptBase) -> Dialog:
    """Ask until the answers of a form are submitted, or a row to go back to is selected."""
    places = (
        reviewed_places(scene.prompt.subject)
        if isinstance(scene.prompt.subject, FormSubject)
        else []
    )
    ask = f"Press Enter to send, type the number of a row to go back to it, or {scene.keys()}:"
    rows = scene.opening()
    while True:
        typed = (yield scene.say(rows, ask)).strip()
        if not typed:
            return Submitted()
        if (is_yes := YES_OR_NO.get(typed.casefold())) is not None:
            return Submitted() if is_yes else WentBack()
        number = int(typed) if typed.isdecimal() and len(typed) <= 3 else 0  # noqa: PLR2004 (a form has fewer than 1000 questions)
        if 1 <= number <= len(places):
            return keyboard.BackTo(places[number - 1] + 1)
        command = keyboard.find_named(scene.commands, typed)
        if command is None:
            rows = hang(
                f"{keyboard.one_line(typed)} is not a row or a key; type ? for help.",
                scene.width,
                "  ",
            )
            continue
        done = yield from scene.act(command)
        if not isinstance(done, list):
            return done
        rows = done

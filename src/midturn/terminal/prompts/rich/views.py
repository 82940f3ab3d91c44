"""The views of a prompt: the first view, and the views that keys open on top of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never, cast

from msgspec import UNSET

from midturn.events.prompt import CallSubject, Prompt, ResultSubject
from midturn.question import answer_type as answers
from midturn.question.json_value import Json, JsonObject
from midturn.question.reply import Answered, Edited, Replied, Submitted
from midturn.terminal.prompts import accept as accepting, keys as keyboard
from midturn.terminal.prompts.answer_text import (
    expected,
    number_text,
    shape,
    wanted,
    wants_number,
    wants_text,
)
from midturn.terminal.prompts.rich.choice import ChoiceView, Keys, ReviewChoice, help_rows
from midturn.terminal.prompts.rich.field import FieldSettings, SecretField, TextField
from midturn.terminal.prompts.rich.filtering import Filtering
from midturn.terminal.prompts.rich.listing import MarkSeveral, OptionList, PickOne
from midturn.terminal.prompts.rich.screen import (
    MAX_WITH_KEYS,
    Opened,
    Pressed,
    PromptView,
    Row,
    Sign,
    Size,
)


def first_view(prompt: Prompt, tail: str, offered: keyboard.Commands) -> PromptView:  # noqa: PLR0911 (one for each type)
    """Return the first view of a prompt. `tail` is the last row of the question."""
    if prompt.kind == "review":
        enter = keyboard.Command("Enter", "send the answers", Submitted(), word="send")
        return ReviewChoice(
            tail, Keys(offered, enter, leaves=keyboard.leaves(prompt), more=(_REVIEW_HELP,)), prompt
        )
    match prompt.question.answer_type:
        case answers.BooleanType():
            return ChoiceView(
                tail,
                Keys(
                    offered,
                    _default(prompt, offered),
                    leaves=keyboard.leaves(prompt),
                    below=keyboard.remembering(prompt),
                ),
            )
        case answers.SelectType(options=options) | answers.MultiSelectType(options=options) if (
            len(options) > MAX_WITH_KEYS
        ):
            return Filtering(prompt, tail)
        case answers.SelectType():
            return PickOne(prompt, tail, offered)
        case answers.MultiSelectType():
            return MarkSeveral(prompt, tail, offered)
        case answers.TextType() | answers.SchemaType():
            return text_field(prompt, tail)
        case answers.SecretType():
            return SecretField(prompt, tail)
        case _ as other:
            assert_never(other)


def text_field(prompt: Prompt, tail: str) -> TextField:
    """Return the field for text or JSON, with the default or a template as its content."""
    start = keyboard.initial(prompt)
    escape = keyboard.escape_hint(prompt)
    match prompt.question.answer_type:
        case answers.SchemaType(schema) if wants_number(schema):
            settings = FieldSettings(
                tail, escape=Sign.MENU, escape_hint=escape, about=expected(schema)
            )
            return TextField(
                settings,
                number_text(start),
                lambda typed: Answered(accepting.accept_number(prompt, typed)),
            )
        case answers.SchemaType(schema) if not wants_text(schema):
            example = shape(schema) if start is UNSET else ""
            settings = FieldSettings(
                tail,
                "json",
                Sign.MENU,
                escape,
                example,
                about="" if example or start is not UNSET else wanted(schema),
            )
            return TextField(
                settings,
                "" if start is UNSET else keyboard.pretty(start),
                lambda typed: Answered(accepting.accept_json(prompt, typed)),
            )
        case answers.SchemaType(schema):
            return _text(
                prompt,
                FieldSettings(tail, escape=Sign.MENU, escape_hint=escape, about=expected(schema)),
            )
        case _:
            return _text(prompt, FieldSettings(tail, escape=Sign.MENU, escape_hint=escape))


def _text(prompt: Prompt, settings: FieldSettings) -> TextField:
    """Return a field for plain text. Empty text may have to be confirmed."""
    start = keyboard.initial(prompt)
    empty = accepting.empty_once(prompt)

    def answered(typed: str) -> Pressed:
        value = accepting.accept(prompt, typed)
        if not typed and empty.now():
            raise accepting.NotAccepted([accepting.EMPTY_TEXT])
        return Answered(value)

    return TextField(settings, start if isinstance(start, str) else "", answered)


def text_menu(offered: keyboard.Commands, *, secret: bool = False) -> ChoiceView:
    """Return the menu that Esc opens in a text field. Its key `a` returns to the text."""
    answer = keyboard.Command("a", "return to the text", keyboard.KeyStep.ANSWER, word="answer")
    return ChoiceView(
        "What next?",
        Keys(
            (answer, *offered), answer, Sign.LEAVE, more=(_HIDDEN_HELP if secret else _TEXT_HELP,)
        ),
    )


def cancel_menu(offered: keyboard.Commands, *, filters: bool = False) -> ChoiceView:
    """Return the menu that Esc opens in a list. Esc in the menu returns to the list."""
    return ChoiceView(
        "Leave the list? (Esc goes back to it)",
        Keys(offered, escape=Sign.LEAVE, more=(_FILTER_HELP,) if filters else ()),
    )


def field_help(
    view: PromptView, prompt: Prompt, offered: keyboard.Commands, size: Size
) -> list[Row]:
    """Return the help for a text field: the keys of the field, then the keys of the menu that Esc
    opens.
    """
    if isinstance(view, TextField) and view.goes_back:
        return help_rows(
            (), [_TEXT_HELP, "Esc - go back to the question; F1 - hide this help"], size
        )
    within = (
        _HIDDEN_HELP
        if isinstance(view, SecretField)
        else _FILTER_HELP
        if isinstance(view, Filtering)
        else _TEXT_HELP
    )
    after = [one for one in offered if one.does is not keyboard.KeyStep.HELP]
    return [
        *help_rows(
            (),
            [
                within,
                f"F1 - hide this help; Ctrl-C - {keyboard.leaves(prompt)}",
                "Esc, then one of these keys:",
            ],
            size,
        ),
        *help_rows(tuple(after), [], size),
    ]


_REVIEW_HELP = "y - send the answers; n - back to the last question"
_TEXT_HELP = "in the text - Enter submits, Alt+Enter begins a new line, Ctrl+X opens your editor"
_HIDDEN_HELP = "in the field - Enter submits, Backspace deletes one, Ctrl+U all of them"
_FILTER_HELP = (
    "in the list - letters filter, ↑↓ move, Tab selects if several can be chosen, Enter answers"
)


def reply_field() -> TextField:
    """Return the field for a reply to the assistant, which may be empty."""
    return TextField(
        FieldSettings("Your reply to the assistant (optional):"),
        "",
        lambda typed: Replied(typed.strip() or None),
    )


def reason_field() -> TextField:
    """Return the field for the reason of a rejection, which may be empty."""
    return TextField(
        FieldSettings("Reason (optional):"),
        "",
        lambda typed: Answered(False, reason=typed.strip() or None),
    )


def other_field(prompt: Prompt, view: PromptView) -> TextField:
    """Return the field for free text. The text is the whole answer, or one more selected value."""
    settings = FieldSettings("In your own words:")
    typed_so_far = view.words if isinstance(view, OptionList) else ""
    if isinstance(view, OptionList) and isinstance(
        prompt.question.answer_type, answers.MultiSelectType
    ):

        def keep(typed: str) -> Pressed:
            view.other = typed.strip() or None
            return Sign.LEAVE

        return TextField(settings, view.other or typed_so_far, keep)

    def answer(typed: str) -> Pressed:
        return (
            Answered(accepting.accept(prompt, {"other": typed.strip()}))
            if typed.strip()
            else Sign.LEAVE
        )

    return TextField(settings, keyboard.first_other(prompt) or typed_so_far, answer)


def subject_field(prompt: Prompt) -> TextField | None:
    """Return the field that edits the arguments or the result.

    Submitting arguments runs the call with them. Submitting a result sends it to the model.
    """

    def changed(value: Json) -> Pressed:
        return Edited(value)

    match prompt.subject:
        case CallSubject(call):
            if arguments := accepting.arguments_of(prompt):
                return _argument_field(prompt, arguments, cast("JsonObject", call.arguments))
            return _json_field(prompt, call.arguments)
        case ResultSubject(content=content):
            return TextField(
                FieldSettings("The result, as the model will read it:"), content, changed
            )
        case _:
            return None


def _argument_field(
    prompt: Prompt, arguments: Sequence[accepting.Argument], so_far: JsonObject, place: int = 0
) -> TextField:
    """Return the field for one argument.

    The field for the next argument opens on top. Submitting the last argument runs the call.
    """
    argument = arguments[place]

    def accepted(typed: str) -> Pressed:
        changed = accepting.accept_argument(prompt, so_far, argument, typed)
        last = place == len(arguments) - 1
        return (
            Edited(changed)
            if last
            else Opened(_argument_field(prompt, arguments, changed, place + 1))
        )

    title = f"[{place + 1}/{len(arguments)}] " if len(arguments) > 1 else ""
    settings = FieldSettings(
        f"{title}New value of {keyboard.one_line(argument.name)}:",
        "json" if argument.is_json else "text",
        as_json=lambda: Opened(_json_field(prompt, so_far)),
    )
    return TextField(settings, argument.text, accepted)


def _json_field(prompt: Prompt, arguments: Json) -> TextField:
    settings = FieldSettings("New arguments:", "json")
    return TextField(
        settings,
        keyboard.pretty(arguments),
        lambda typed: Edited(accepting.accept_arguments(prompt, typed)),
    )


def rule_field(prompt: Prompt) -> TextField | None:
    """Return the field for a rule and its scope.

    Submitting the rule stores it and runs the call.
    """
    draft = prompt.rule
    if draft is None:
        return None
    chosen = accepting.ChosenScope(draft)
    tab = chosen.change if chosen.can_change else None
    settings = FieldSettings(
        "The rule for such calls:", notes=chosen.said, tab=tab, tab_word="Tab changes the scope"
    )
    return TextField(
        settings, draft.text, lambda typed: accepting.by_rule(draft, typed, chosen.scope)
    )


def _default(prompt: Prompt, offered: keyboard.Commands) -> keyboard.Command | None:
    if keyboard.skipped(prompt):
        return keyboard.find(offered, "-")
    default = keyboard.yes_no_default(prompt)
    return None if default is None else keyboard.find(offered, "y" if default else "n")

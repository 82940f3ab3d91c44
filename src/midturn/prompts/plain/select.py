"""One or several of many options, line by line."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from msgspec import UNSET

from midturn.core.json_value import Json
from midturn.core.question.answer_type import MultiSelectType, SelectType
from midturn.core.reply import Answered, Reply
from midturn.prompts.accept import NotAccepted, accept
from midturn.prompts.answer_text import choice_text
from midturn.prompts.choosing import bounds, choose, choose_many, is_option
from midturn.prompts.content import first_other, initial, marked, skipped
from midturn.prompts.keys import KeyStep, find, find_named
from midturn.prompts.plain.dialog import Dialog, Saying
from midturn.prompts.plain.entry import read_text
from midturn.prompts.plain.listing import PrintedOptions
from midturn.prompts.plain.scene import Scene

Marks: TypeAlias = frozenset[int] | None

_OTHER = "Your own words, Enter alone or :c to return to the list:"


def select(scene: Scene, answer_type: SelectType) -> Dialog:
    """Ask for one option by its number or name."""
    listing = PrintedOptions(answer_type.options, scene.width)
    start = initial(scene.prompt)
    enter = "" if start is UNSET else _enter(scene, answer_type, start)
    ask = f"Type a number 1-{len(answer_type.options)} or a name; {scene.keys()}{enter}:"
    rows = [*scene.opening(), *listing.page()]
    while True:
        typed = (yield scene.say(rows, ask)).strip()
        try:
            if not typed and enter and start is not UNSET:
                return Answered(accept(scene.prompt, start))
            done = yield from _act(scene, listing, typed, None)
            if isinstance(done, str):
                return Answered(accept(scene.prompt, {"other": done}))
            if done is None:
                return Answered(accept(scene.prompt, answer_type.options[choose(typed, answer_type.options)].value))
        except NotAccepted as error:
            done = error.lines
        if not isinstance(done, list):
            return done
        rows = done


def multi_select(scene: Scene, answer_type: MultiSelectType) -> Dialog:
    """Ask for any number of options: numbers, ranges, names, `all` or `none`."""
    listing = PrintedOptions(answer_type.options, scene.width)
    start, marks, other = initial(scene.prompt), marked(scene.prompt), first_other(scene.prompt)
    enters = start is not UNSET
    rows = [*scene.opening(), *listing.page(marks), *_other_row(other)]
    while True:
        count = len(marks) + (other is not None)
        enter = f" (Enter keeps the {count} marked)" if enters else ""
        limits = f" ({limited})" if (limited := bounds(answer_type)) else ""
        typed = (yield scene.say(rows, f"Type numbers such as 1,3-5, or all, or none{limits}; {scene.keys()}{enter}:")).strip()
        try:
            done = None if not typed and enters else (yield from _act(scene, listing, typed, marks))
            if isinstance(done, str):
                other, enters = done, True
                done = [*listing.again(marks), *_other_row(other)]
            elif done is None:
                chosen = choose_many(typed, answer_type.options) if typed else marks
                return Answered(accept(scene.prompt, _values(answer_type, chosen, other)))
        except NotAccepted as error:
            done = error.lines
        if not isinstance(done, list):
            return done
        rows = done


def _act(scene: Scene, listing: PrintedOptions, typed: str, marks: Marks) -> Generator[Saying, str, Reply | list[str] | str | None]:
    """Do what is not a choice: a reply, rows to show, the other words that were typed, or None where the line names options."""
    if not typed:
        return ["There is no default: type a number or a name."]
    if typed == "m" and listing.pages:
        return listing.page(marks)
    if typed.startswith("/") and listing.pages:
        return listing.filter(typed[1:], marks)
    command = find(scene.commands, typed) or (None if is_option(typed, listing.options) else find_named(scene.commands, typed))
    if command is None:
        return None
    if command.does is not KeyStep.OTHER:
        return (yield from scene.act(command))
    other = yield from read_text(scene.say((), _OTHER, "text"))
    return other.strip() or listing.again(marks) if other else listing.again(marks)


def _enter(scene: Scene, answer_type: SelectType, start: Json) -> str:
    """Say what Enter takes: the number of an option, or words of the person's own."""
    if skipped(scene.prompt):
        return " (Enter to skip)"
    place = min(marked(scene.prompt), default=None)
    if place is not None:
        return f" (Enter for {place + 1})"
    return f" (Enter for '{scene.short(choice_text(start))}')" if answer_type.allow_other else ""


def _other_row(other: str | None) -> list[str]:
    return [] if other is None else [f"  o. [x] {choice_text({'other': other})}"]


def _values(answer_type: MultiSelectType, places: frozenset[int], other: str | None) -> list[Json]:
    chosen: list[Json] = [answer_type.options[place].value for place in sorted(places)]
    return chosen if other is None else [*chosen, {"other": other}]

"""Fills in a page in a browser with the keyboard only or by touch, with and without JavaScript."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

import pytest
from playwright.sync_api import Locator, Page

from midturn.question.json_value import Json
from midturn.web.controls import Control
from midturn.web.schema_fields import SchemaField

_FARTHEST = 200  # maximum number of Tab presses


def tab_to(page: Page, target: str) -> None:
    """Move the focus to an element with the Tab key."""
    for _ in range(_FARTHEST):
        if page.evaluate("target => document.activeElement?.matches?.(target) ?? false", target):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"Tab does not lead to {target}")


class PageInput(Protocol):
    """How a user operates the controls of a page. `target` is a CSS selector."""

    page: Page

    def write(self, target: str, words: str) -> None:
        """Replace the content of a field."""
        ...

    def choose(self, target: str, value: str) -> None:
        """Choose an option of a list."""
        ...

    def press(self, target: str) -> None:
        """Press a button, or toggle a checkbox."""
        ...


class KeyboardInput:
    """Uses only the keyboard."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def write(self, target: str, words: str) -> None:
        """Type the text. Date and time controls of the browser take their parts one after the
        other.
        """
        tab_to(self.page, target)
        kind = self.page.locator(target).get_attribute("type")
        if kind in ("date", "datetime-local"):
            day, _, moment = words.partition("T")
            year, month, date = day.split("-")
            self._type(month, date, year)
            if moment:
                self.page.keyboard.press("ArrowRight")
                hour, minute, second = moment.split(":")
                self._type(f"{int(hour) % 12 or 12:02}", minute, second)
                self.page.keyboard.press("p" if int(hour) >= 12 else "a")
            return
        self.page.keyboard.press("Control+A")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(words)

    def _type(self, *parts: str) -> None:
        for part in parts:
            self.page.keyboard.type(part)

    def choose(self, target: str, value: str) -> None:
        """Press the arrow key until the option is selected."""
        tab_to(self.page, target)
        self.page.keyboard.press("Home")
        for _ in range(_FARTHEST):
            if self.page.locator(target).input_value() == value:
                return
            self.page.keyboard.press("ArrowDown")
        pytest.fail(f"no key leads to {value!r} in {target}")

    def press(self, target: str) -> None:
        """Press the space bar, which toggles a checkbox and presses a button."""
        if (
            self.page.locator(target).get_attribute("type") == "radio"
        ):  # Tab focuses the group; arrow keys move within it
            name = self.page.locator(target).get_attribute("name")
            tab_to(self.page, f"input[type=radio][name='{name}']")
            while not self.page.evaluate(
                "target => document.activeElement.matches(target)", target
            ):
                self.page.keyboard.press("ArrowDown")
        else:
            tab_to(self.page, target)
        self.page.keyboard.press("Space")


class TouchInput:
    """Uses touch."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def write(self, target: str, words: str) -> None:
        """Fill in the field, as a screen keyboard or a date picker does."""
        self._tapped(target).fill(words)

    def choose(self, target: str, value: str) -> None:
        """Choose from the browser's list."""
        self.page.locator(target).select_option(value)

    def press(self, target: str) -> None:
        self._tapped(target)

    def _tapped(self, target: str) -> Locator:
        place = self.page.locator(target)
        place.tap()
        return place


def answer_in(hands: PageInput, control: Control, value: Json) -> None:
    """Enter `value` in the control of a question and send it. `control` already describes the
    control with this value.
    """
    match control.kind:
        case "boolean":
            hands.press(f"button[name=answer][value={'yes' if value else 'no'}]")
            return
        case "one":
            hands.press(
                f"input[name=answer][value='{next(one.place for one in control.choices if one.chosen)}']"
            )
        case "fields" if control.form:
            _fill(hands, control.form)
        case _:
            hands.write("#answer", control.text)
    hands.press(".buttons button.primary")


def answer_as_json(hands: PageInput, value: Json) -> None:
    """Switch a form to JSON, replace the text, and send it."""
    hands.press("button[value='as json']")
    hands.page.locator("#answer").wait_for()
    hands.write("#answer", json.dumps(value))
    hands.press(".buttons button.primary")


def _fill(hands: PageInput, field: SchemaField) -> None:
    if field.given is not None:
        _mark(hands, f"#{field.id} > .given input", is_marked=field.given)
    if field.given is False:
        return
    if field.kind == "list":
        _count(hands, f"#{field.id}", len(field.parts))
    if field.parts:
        for part in field.parts:
            _fill(hands, part)
    else:
        _hold(hands, f"#{field.id}", field)


def _hold(hands: PageInput, here: str, field: SchemaField) -> None:
    match field.kind:
        case "several":
            for choice in field.choices:
                _mark(hands, f"{here} input[value='{choice.value}']", is_marked=choice.chosen)
        case "switch":
            _mark(hands, here, is_marked=bool(field.text))
        case "choice":
            hands.choose(here, next(choice.value for choice in field.choices if choice.chosen))
        case "line" | "text" | "number" | "json" | "moment":
            hands.write(here, field.text)
            if field.zone is not None and field.text:
                hands.write(f"{here} + .zone", field.zone)
        case "const" | "group" | "list":
            pass


def _mark(hands: PageInput, box: str, *, is_marked: bool) -> None:
    if hands.page.locator(box).is_checked() != is_marked:
        hands.press(box)


def _count(hands: PageInput, here: str, count: int) -> None:
    """Add or remove items until there are `count`."""
    held = f"{here} > .parts > input[type=hidden]"
    while (now := int(hands.page.locator(held).input_value())) != count:
        hands.press(
            f"{here} > .parts > p > button"
            if now < count
            else f"{here} > .parts > .entry:last-of-type > button"
        )
        hands.page.locator(f"{held}[value='{now + (1 if now < count else -1)}']").wait_for(
            state="attached"
        )


def kinds(field: SchemaField) -> Mapping[str, str]:
    """Return the kind of control of each field of a form."""
    inner = {pointer: kind for part in field.parts for pointer, kind in kinds(part).items()}
    return {field.pointer: field.kind, **inner}

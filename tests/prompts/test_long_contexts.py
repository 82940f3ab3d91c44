"""A context that does not fit on the screen takes a third of it. `v` shows all of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.terminal.prompts.body import rows_shown
from midturn.terminal.prompts.rich.screen import row_text
from support.plain_prompt_driver import PlainPromptDriver
from support.prompt_catalogue import PROMPTS, SELECT, TEXT
from support.rich_prompt_driver import RichPromptDriver

LINES = [f"line {number}" for number in range(1, 201)]


def prompt_with_context(prompt: Prompt, lines: int = 200) -> Prompt:
    """Return a prompt with a context of `lines` lines."""
    return replace(prompt, question=replace(prompt.question, context="\n".join(LINES[:lines])))


def printed_rows(keys: RichPromptDriver) -> list[str]:
    """Return the rows above the live area."""
    return [row_text(spans) for spans in keys.prompt.static()]


def test_a_long_context_takes_a_third_of_the_screen_and_v_opens_the_pager() -> None:
    keys = RichPromptDriver(
        prompt_with_context(PROMPTS["boolean_no_persistence"]), rows=24, height=24
    )

    rows = printed_rows(keys)
    assert [found for found in rows if "line " in found] == [
        f"│ line {number}" for number in range(1, 9)
    ]
    assert "… 192 more lines, v to view" in rows
    keys.press("v")
    assert keys.pager is not None
    assert keys.live[-1].startswith("rows 9-31 of 200")
    assert keys.press("end", "home", "q", "y").transcript.endswith("were not viewed)")


@pytest.mark.parametrize(
    ("prompt", "keys"), [(SELECT, "v"), (TEXT, "Esc v"), (PROMPTS["select48"], "Esc v")]
)
def test_the_row_names_the_keys_that_show_the_rest(prompt: Prompt, keys: str) -> None:
    assert f"… 192 more lines, {keys} to view" in printed_rows(
        RichPromptDriver(prompt_with_context(prompt), rows=24, height=24)
    )


def test_a_context_that_fits_on_the_screen_is_shown_whole() -> None:
    keys = RichPromptDriver(
        prompt_with_context(PROMPTS["boolean_no_persistence"], 16), rows=24, height=24
    )

    assert "│ line 16" in printed_rows(keys)
    assert not any("more lines" in found for found in printed_rows(keys))


def test_a_plain_prompt_shows_a_third_of_the_screen_and_v_prints_the_rest() -> None:
    prompt = prompt_with_context(PROMPTS["boolean_no_persistence"])

    asked = PlainPromptDriver(prompt, height=24)
    viewed = PlainPromptDriver(prompt, "v", "y", height=24)

    assert "| line 8" in asked.said
    assert "| line 9" not in asked.said
    assert "... 192 more lines, v to view" in asked.said
    assert "| line 200" in viewed.said
    assert viewed.said[-1] == "Answer: yes"


def test_the_third_depends_on_the_window_size() -> None:
    keys = RichPromptDriver(
        prompt_with_context(PROMPTS["boolean_no_persistence"]), rows=24, height=24
    )

    keys.prompt.refit(60, 40)

    assert "│ line 13" in printed_rows(keys)
    assert "│ line 14" not in printed_rows(keys)


@pytest.mark.parametrize(
    ("count", "height", "shown"),
    [
        (200, 24, 8),
        (16, 24, 16),
        (17, 24, 8),
        (200, 0, 120),
        (50, 0, 50),
        (9, 1, 1),
        (0, 24, 0),
        (13, 20, 13),
    ],
)
def test_number_of_shown_rows(count: int, height: int, shown: int) -> None:
    assert rows_shown(count, height) == shown

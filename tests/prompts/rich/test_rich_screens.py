"""Golden screens of rich prompts, and their layout in windows of any size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from midturn.events.prompt import CallSubject
from midturn.question.reply import Answered
from midturn.terminal.prompts.cells import cells
from midturn.terminal.prompts.rich.keyboard import Paste
from midturn.terminal.prompts.rich.screen import row_cells, row_text
from support.golden import assert_golden
from support.prompt_catalogue import CALL, MULTI, PROMPTS, RUN, SCHEMA, SECRET, SELECT, TEXT
from support.rich_prompt_driver import RichPromptDriver

BOOLEAN = PROMPTS["boolean_default"]
TYPES = {
    "boolean": BOOLEAN,
    "select": SELECT,
    "multi_select": MULTI,
    "text": TEXT,
    "secret": SECRET,
    "schema": SCHEMA,
}


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("name", sorted(PROMPTS))
def test_each_prompt_matches_its_golden_screen(name: str, columns: int) -> None:
    asked = RichPromptDriver(PROMPTS[name], columns=columns, rows=48)
    helped = RichPromptDriver(PROMPTS[name], columns=columns, rows=48).press("escape", "?")

    assert_golden(
        f"rich_{columns}/{name}",
        f"{asked.drawn(f'{name}: as asked')}\n{helped.drawn(f'{name}: Esc, ?')}",
    )


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("name", TYPES)
def test_each_type_with_default_remembering_and_label(name: str, columns: int) -> None:
    """One golden screen for each combination, one below the other."""
    drawn: list[str] = []
    for default in ("default", "no default"):
        for remember in ("remember", "no remembering"):
            for label in ("label", "no label"):
                prompt = TYPES[name]
                question = replace(
                    prompt.question,
                    default=prompt.question.default if default == "default" else UNSET,
                )
                asked = replace(
                    prompt,
                    question=question,
                    may_remember=remember == "remember",
                    label="Ops" if label == "label" else None,
                )
                drawn.append(
                    RichPromptDriver(asked, columns=columns).drawn(
                        f"{name}: {default}, {remember}, {label}"
                    )
                )

    assert_golden(f"rich_{columns}/every_{name}", "\n".join(drawn))


KEYS = st.sampled_from(
    [
        *"yYnNpbrseov?-19acq /",
        "enter",
        "escape",
        "up",
        "down",
        "tab",
        "c-a",
        "c-j",
        "m-enter",
        "backspace",
        "c-w",
        "home",
        Paste("a\nb"),
    ]
)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(PROMPTS)),
    st.sampled_from([(80, 24), (40, 12), (30, 1), (10, 5), (200, 50), (2, 2)]),
    st.lists(KEYS, max_size=12),
)
def test_every_frame_fits_after_any_keys(
    name: str, size: tuple[int, int], keys: list[str | Paste]
) -> None:
    """Tested down to 30 columns and a single row.

    Printed rows begin with the gutter or are the prompt's own.
    """
    columns, rows = size
    asked = RichPromptDriver(PROMPTS[name], columns=columns, rows=rows)
    for key in keys:
        if asked.reply is None:
            asked.press(key)

    assert all(row_cells(spans) <= columns for spans in asked.frame().rows)
    if asked.reply is not None:
        assert cells(asked.transcript) <= columns


def test_a_terminal_that_became_narrower_still_shows_the_question() -> None:
    keys = RichPromptDriver(PROMPTS["boolean_long"], columns=80)
    keys.size = RichPromptDriver(PROMPTS["text"], columns=20).size

    assert (
        "".join(line.strip() for line in keys.live).replace(" ", "").startswith("inthisrepository,")
    )


@pytest.mark.parametrize("columns", [120, 60, 40])
@pytest.mark.parametrize(
    "name", ["boolean", "select", "select48", "multi", "text", "secret", "schema"]
)
def test_a_question_is_wrapped_again_for_another_width(name: str, columns: int) -> None:
    text = (
        "Should the agent rewrite every call site of the deprecated configuration loader in this"
        " repository, vendored code included?"
    )
    asked = replace(PROMPTS[name], question=replace(PROMPTS[name].question, text=text))
    keys = RichPromptDriver(asked)
    keys.prompt.refit(columns)
    keys.size = RichPromptDriver(asked, columns=columns).size

    fresh = RichPromptDriver(asked, columns=columns)
    assert keys.prompt.static() == fresh.prompt.static()
    assert keys.live == fresh.live


def test_content_never_begins_a_row_without_the_gutter() -> None:
    """This holds for contexts and arguments with any padding."""
    forged = f"harmless{' ' * 300}Assistant\nRun it? [y,n]\n\n" + "x" * 500
    context = replace(BOOLEAN, question=replace(BOOLEAN.question, context=forged))
    call = replace(RUN, subject=CallSubject(replace(CALL, arguments={"a": forged})))

    for prompt in (context, call):
        header, *above = [row_text(spans) for spans in RichPromptDriver(prompt).prompt.static()]
        assert header in {"│ Assistant", "│ deploy"}
        assert all(text.startswith("│ ") for text in above)


def test_the_question_is_indented_so_that_no_header_can_be_forged() -> None:
    forged = replace(
        BOOLEAN,
        question=replace(BOOLEAN.question, text=f"Continue?{' ' * 71}Assistant{' ' * 71}Run it?"),
    )
    keys = RichPromptDriver(forged)

    above = [row_text(spans) for spans in keys.prompt.static()][2:]
    assert all(text.startswith("  ") for text in [*above, keys.live[0]])
    assert [text[:5] for text in keys.live[1:]] == ["y yes", "Y yes"]


def test_question_and_answer_share_a_row_in_the_transcript() -> None:
    keys = RichPromptDriver(PROMPTS["text"], columns=40).press(
        "c-u", Paste("none so far\nsecond line"), "enter"
    )

    assert keys.reply == Answered("none so far\nsecond line")
    assert keys.transcript == "Note for the migra… none so far⏎ secon…"

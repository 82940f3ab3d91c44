"""Questions made to be unreadable or to draw outside their area."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from midturn.events.prompt import Prompt
from midturn.question.answer_type import BooleanType, SelectOption, SelectType
from midturn.question.question import Question
from midturn.terminal.prompts.body import ROWS_SHOWN
from midturn.terminal.prompts.cells import cells
from midturn.terminal.prompts.plain_scene import PromptBase
from midturn.terminal.prompts.rich.screen import row_text
from support.rich_prompt_driver import RichPromptDriver

WORD = "x" * 2_000
ALIKE = tuple(
    SelectOption(
        f"infrastructure/deployments/services/payments/backend/configuration/environments/node-{number:03}.yaml"
    )
    for number in range(200)
)
DIFF = "\n".join(
    [
        "--- a/plan.md",
        "+++ b/plan.md",
        "@@ -0,0 +1,5000 @@",
        *(f"+{number} \x1b[2J\u202e" for number in range(5_000)),
    ]
)
CONTEXT = ("word " * 20 + "\n") * (16 * 1024 // 101)


def asked(
    text: str = "Apply it?", *, context: str | None = None, options: tuple[SelectOption, ...] = ()
) -> Prompt:
    kind = SelectType(options) if options else BooleanType()
    return replace(
        PROMPT, question=replace(PROMPT.question, text=text, context=context, answer_type=kind)
    )


PROMPT = Prompt(question=Question.boolean("q", "?"), asked_by="deploy")


@pytest.mark.parametrize("columns", [80, 40, 30])
def test_two_thousand_characters_without_a_space_are_shown(columns: int) -> None:
    keys = RichPromptDriver(asked(WORD), columns=columns)
    above = [row_text(spans) for spans in keys.prompt.static()[1:]]

    asks = [row for row in keys.live if "y yes" not in row]
    assert "".join(row.strip() for row in [*above, *asks]) == WORD
    assert all(cells(row) <= columns for row in above)
    assert all(row.startswith("  ") for row in above[1:])


@pytest.mark.parametrize("columns", [80, 40, 30])
def test_two_hundred_options_with_equal_beginnings_are_distinguishable(columns: int) -> None:
    keys = RichPromptDriver(asked(options=ALIKE), columns=columns)
    seen = [row for row in keys.live if "…" in row]

    assert len(seen) >= 8
    assert all(row.endswith(f"node-{number:03}.yaml") for number, row in enumerate(seen, 1))


@pytest.mark.parametrize("columns", [80, 40])
def test_few_options_with_equal_beginnings_are_distinguishable(columns: int) -> None:
    keys = RichPromptDriver(asked(options=ALIKE[:5]), columns=columns)

    assert [row[-8:] for row in keys.live if "…" in row] == [
        f"{number:03}.yaml" for number in range(1, 5)
    ]


@pytest.mark.parametrize(
    "context",
    [CONTEXT, DIFF, WORD * 8],
    ids=["16 KiB of words", "a diff of 5,000 rows", "16 KiB without a space"],
)
@pytest.mark.parametrize("columns", [80, 40, 30])
def test_a_long_context_keeps_its_gutter_and_says_how_much_is_missing(
    context: str, columns: int
) -> None:
    rich = [
        row_text(spans)
        for spans in RichPromptDriver(asked(context=context), columns=columns).prompt.static()[1:]
    ]
    plain = PromptBase(asked(context=context), columns).opening()[1:]

    for rows, gutter in ((rich, "│ "), (plain, "| ")):
        assert all(row.startswith(gutter) for row in rows[:ROWS_SHOWN])
        assert all(cells(row) <= columns for row in rows)
        assert "more lines, v to view" in " ".join(map(str.strip, rows[ROWS_SHOWN:]))
        assert "\x1b" not in "".join(rows)


@pytest.mark.parametrize("context", [CONTEXT, DIFF, WORD])
@pytest.mark.parametrize("columns", [30, 200])
def test_redrawing_at_another_width_keeps_the_gutter(context: str, columns: int) -> None:
    keys = RichPromptDriver(asked(WORD, context=context))
    keys.prompt.refit(columns)
    rows = [row_text(spans) for spans in keys.prompt.static()]

    assert rows[0] == "│ deploy"
    assert all(cells(row) <= columns for row in rows)
    assert all(row.startswith(("│ ", "  ", "… ")) for row in rows[1:] if not row.startswith("xxx"))
    assert sum(row.startswith("xxx") for row in rows) == 1


def without_number(row: str) -> str:
    return re.sub(r"^│ +\d+ ", "│ ", row)


def test_every_row_of_a_long_diff_can_be_viewed_before_it_is_approved() -> None:
    keys = RichPromptDriver(asked(context=DIFF)).press("v")
    seen: list[str] = []
    while not seen or not seen[-1].startswith("│ +4999 "):
        seen += [without_number(row) for row in keys.live[:-1]]
        keys.press(" ")

    assert [row for row in dict.fromkeys(seen) if row.startswith("│ +")][-4_000:] == [
        f"│ +{number} ⟨U+001B⟩[2J⟨U+202E⟩" for number in range(1_000, 5_000)
    ]
    assert keys.press("q", "y").transcript == "Apply it? yes"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("y", "yes (4883 rows were not viewed)"),
        ("n", "no"),
        (("v", "q", "y"), "yes (4854 rows were not viewed)"),
    ],
)
def test_a_text_counts_as_viewed_only_at_its_end(keys: str | tuple[str, ...], said: str) -> None:
    assert RichPromptDriver(asked(context=DIFF)).press(*keys).transcript == f"Apply it? {said}"

"""The checks of document examples detect errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from midturn.errors import MidturnError
from support.documents import Block
from support.examples import Examples
from support.transcripts import IdMapping

SHOWN = "qaxmved2qven  waits in 1795267395701234, since 13:23\nanswer qaxmved2qven\n"


def block(info: str, text: str, follows: str = "") -> Block:
    """Return a block of a nonexistent document."""
    return Block(Path(__file__).parents[2] / "docs" / "none.md", 0, 1, info, text, follows)


def test_ids_and_times_may_differ_and_stay_the_same_inside_a_document() -> None:
    names = IdMapping()

    assert names.fits(
        SHOWN, "bbbbbb7bbbbb  waits in 1795260000001234, since 07:01\nanswer bbbbbb7bbbbb\n"
    )
    assert names.in_this_run("midturn answer qaxmved2qven") == "midturn answer bbbbbb7bbbbb"
    assert not names.fits("answer qaxmved2qven\n", "answer cccccccccccc\n")


@pytest.mark.parametrize(
    "printed",
    [
        "bbbbbb7bbbbb  waits in 1795260000001234, since 07:01\nanswer cccccccccccc\n",
        "bbbbbb7bbbbb  waits in 1795260000001234, since then\nanswer bbbbbb7bbbbb\n",
        "bbbbbb7bbbbb  waits in 1795260000001234, since 07:01\nanswer bbbbbb7bbbbb\nand more\n",
    ],
    ids=["another-id", "no-time", "more"],
)
def test_anything_else_must_be_as_shown(printed: str) -> None:
    assert not IdMapping().fits(SHOWN, printed)


def test_dots_match_omitted_text() -> None:
    assert IdMapping().fits("a … z\n…\nend\n", "a b c z\nx\ny\nend\n")
    assert not IdMapping().fits("a … z\n", "a b c z\nx\n")


def test_rewritten_output_keeps_ids() -> None:
    printed = "bbbbbb7bbbbb  is open in 1795260000001234\nanswer bbbbbb7bbbbb\n"

    assert (
        IdMapping().as_shown(SHOWN, printed)
        == "qaxmved2qven  is open in 1795267395701234\nanswer qaxmved2qven\n"
    )


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ([block("yaml", "a: 1\n")], "a block of the kind `yaml` is not checked by anybody"),
        ([block("text", "nobody checks this\n")], "this text follows no Python block"),
        (
            [block("python", "print(1)\n"), block("text", "2\n", "python")],
            "--- shown\n2\n--- printed\n1\n",
        ),
        (
            [block("python", "print(1)\n"), block("python", "print(2)\n")],
            "printed, and no `text` block shows it:\n1\n",
        ),
        (
            [block("console", "$ false\n$ true\n")],
            "before `true`, show with `echo $?` that status 1 is meant",
        ),
        ([block("console", "$ false\n")], "the last command ends with status 1"),
        ([block("console", "$ echo 1\n2\n")], "echo 1\n--- shown\n2\n--- printed\n1\n"),
        ([block("toml", "[assistant]\nnam = 'x'\n")], "unknown key `assistant.nam`"),
        ([block("json question", '{"id": "a"}\n')], "/answer_type: `answer_type` is missing"),
        ([block("json event", '{"type": "turn_end"}\n')], "Object missing required field `status`"),
        ([block("json answers", "{}\n")], "nobody knows what `json answers` is"),
    ],
    ids=[
        "kind",
        "text",
        "output",
        "unshown",
        "status",
        "last-status",
        "command",
        "key",
        "question",
        "event",
        "mark",
    ],
)
def test_wrong_example_fails_with_a_reason(
    broken: list[Block], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UPDATE_DOCUMENTS", raising=False)
    examples = Examples(tmp_path)

    def play() -> None:
        for one in broken:
            examples.play(one)

    with (
        examples.as_current(),
        pytest.raises((AssertionError, MidturnError), match=re.escape(says)),
    ):
        play()

"""`midturn conversation show --usage`: tokens of the conversation, and separately those of models
that answered questions.
"""

from __future__ import annotations

from support.cli import CommandLine, asks, calls

TALK = {"input_tokens": 1_000, "output_tokens": 20, "cache_read_tokens": 800}
SIDE = {"input_tokens": 1_100, "output_tokens": 7, "cache_read_tokens": 1_000}


def review(midturn: CommandLine) -> None:
    """Run a turn in which a model answers two questions, and one without questions."""
    midturn.asker(questions={"confirm": {"target": "assistant"}})
    answer = {
        "tool": "*",
        "question": "*",
        "answers": [{"reason": "Fine.", "answer": True, "usage": SIDE}],
    }
    call = calls("deploy", ask=asks())
    model = midturn.script(
        {**call, "usage": TALK},
        {**call, "usage": TALK},
        {"text": "Done.", "usage": TALK},
        inquiries=[answer],
    )
    midturn.ok("query", "-m", model, "Ship it")
    midturn.ok("query", "-c", "Thanks")


def test_usage_of_answers_is_counted_separately(midturn: CommandLine) -> None:
    review(midturn)

    assert midturn.ok("conversation", "show", "--usage").stdout.splitlines() == [
        "input  cached  output  what",
        "3,000  2,400   60      Ship it",
        "2,200  2,000   14        2 questions to models",
        "0      0       0       Thanks",
        "3,000  2,400   60      all turns",
        "2,200  2,000   14        2 questions to models",
    ]


def test_usage_as_json(midturn: CommandLine) -> None:
    review(midturn)

    printed = midturn.ok("conversation", "show", "--usage", "--json").json

    nothing = {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
    }
    talk = {
        "input_tokens": 3_000,
        "output_tokens": 60,
        "cache_read_tokens": 2_400,
        "cache_write_tokens": 0,
    }
    side = {
        "input_tokens": 2_200,
        "output_tokens": 14,
        "cache_read_tokens": 2_000,
        "cache_write_tokens": 0,
    }
    whole = {**talk, "questions": {"count": 2, **side}}
    assert printed == {
        "turns": [whole, {**nothing, "questions": {"count": 0, **nothing}}],
        "total": whole,
    }


def test_waiting_times_are_summed_over_all_conversations(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()))
    for _ in range(2):
        midturn.run("query", "-m", model, "--defer", "Ship it")
        midturn.ok("answer", midturn.ok("inbox", "--json").json[0]["id"], "yes", "--resume")

    printed = midturn.ok("conversation", "usage", "--people", "--json").json
    assert [(row["name"], row["answers"]) for row in printed["people"]] == [("ana", 2)]
    assert (printed["asked"], printed["deadlines_missed"], printed["groups"]) == (2, 0, [])
    shown = midturn.ok("conversation", "usage", "--people").stdout.splitlines()
    assert shown[0].split() == ["person", "answers", "median", "longest"]
    assert shown[1].split()[:2] == ["ana", "2"]
    assert shown[2].split() == ["asked", "of", "people", "2"]
    assert (
        midturn.ok("conversation", "usage").stdout
        == midturn.ok("conversation", "show", "--usage").stdout
    )

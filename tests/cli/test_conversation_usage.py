"""`midturn conversation show --usage`: what models cost, and apart from it what their answers to questions cost."""

from __future__ import annotations

from support.cli import CommandLine, asks, calls

TALK = {"input_tokens": 1_000, "output_tokens": 20, "cache_read_tokens": 800}
SIDE = {"input_tokens": 1_100, "output_tokens": 7, "cache_read_tokens": 1_000}


def review(midturn: CommandLine) -> None:
    """Have a turn in which a model answers two questions, and one without any."""
    midturn.asker(questions={"confirm": {"target": "assistant"}})
    answer = {"tool": "*", "question": "*", "answers": [{"reason": "Fine.", "answer": True, "usage": SIDE}]}
    call = calls("deploy", ask=asks())
    model = midturn.script({**call, "usage": TALK}, {**call, "usage": TALK}, {"text": "Done.", "usage": TALK}, inquiries=[answer])
    midturn.ok("query", "-m", model, "Ship it")
    midturn.ok("query", "-c", "Thanks")


def test_answers_to_questions_are_counted_apart(midturn: CommandLine) -> None:
    review(midturn)

    assert midturn.ok("conversation", "show", "--usage").stdout.splitlines() == [
        "input  cached  output  what",
        "3,000  2,400   60      Ship it",
        "2,200  2,000   14        2 questions to models",
        "0      0       0       Thanks",
        "3,000  2,400   60      all turns",
        "2,200  2,000   14        2 questions to models",
    ]


def test_as_json_too(midturn: CommandLine) -> None:
    review(midturn)

    printed = midturn.ok("conversation", "show", "--usage", "--json").json

    nothing = {"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0}
    talk = {"input_tokens": 3_000, "output_tokens": 60, "cache_read_tokens": 2_400, "cache_write_tokens": 0}
    side = {"input_tokens": 2_200, "output_tokens": 14, "cache_read_tokens": 2_000, "cache_write_tokens": 0}
    whole = {**talk, "questions": {"count": 2, **side}}
    assert printed == {"turns": [whole, {**nothing, "questions": {"count": 0, **nothing}}], "total": whole}


def test_how_long_people_were_waited_for_is_counted_over_all_conversations(midturn: CommandLine) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()))
    for _ in range(2):
        midturn.run("query", "-m", model, "--defer", "Ship it")
        midturn.ok("answer", midturn.ok("inbox", "--json").json[0]["id"], "yes", "--resume")

    printed = midturn.ok("conversation", "usage", "--people", "--json").json
    assert [(row["name"], row["answers"]) for row in printed["people"]] == [("ana", 2)]
    assert (printed["asked"], printed["deadlines_missed"], printed["groups"]) == (2, 0, [])
    shown = midturn.ok("conversation", "usage", "--people").stdout.splitlines()
    assert shown[0].split() == ["person", "answers", "half", "within", "longest"]
    assert shown[1].split()[:2] == ["ana", "2"]
    assert shown[2].split() == ["asked", "of", "people", "2"]
    assert midturn.ok("conversation", "usage").stdout == midturn.ok("conversation", "show", "--usage").stdout

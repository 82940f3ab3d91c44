"""A result that needs approval keeps its images."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from midturn.events.prompt import Prompt, ResultSubject
from midturn.events.types import Image, ToolCall
from midturn.question.question import Question
from midturn.terminal.prompts.body import subject_lines
from support.cli import CommandLine, calls

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize(("value", "pictures"), [("y", ["image/png"]), ('{"edit": "A dot."}', [])])
def test_approved_result_keeps_its_images_unless_edited(
    midturn: CommandLine, value: str, pictures: list[str]
) -> None:
    (midturn.root / "dot.png").write_bytes(PICTURE)
    with midturn.config.open("a") as file:
        file.write('[conversation.tools.fs_read_file]\nresult = "ask"\n')
    midturn.run(
        "query", "-m", midturn.script(calls("fs_read_file", path="dot.png")), "--defer", "Look"
    )
    approval = midturn.ok("inbox", "--json").json[0]
    waiting: dict[str, Any] = next(
        event for event in midturn.events() if event["type"] == "approval"
    )
    assert [image["media_type"] for image in waiting["images"]] == ["image/png"]

    midturn.ok("answer", approval["id"], value, "--resume")

    response = next(event for event in midturn.events() if event["type"] == "tool_call_response")
    assert [image["media_type"] for image in response.get("images", [])] == pictures


def test_approval_mentions_the_image() -> None:
    call = ToolCall("e1", "c1", "fs_read_file", {"path": "dot.png"})
    subject = ResultSubject(call, "[dot.png]", is_error=False, images=(Image("image/png", "aGk="),))
    prompt = Prompt(
        question=Question.boolean("deliver", "Deliver it?"), kind="deliver", subject=subject
    )

    assert subject_lines(prompt) == ["[dot.png]", "(and a picture: image/png)"]

from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from midturn.events.outcome import NeedsInput, Success, ToolError
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import Json, SecretValue
from midturn.tools.command import (
    CommandSpec,
    CommandTool,
    WireError,
    WireWorkspace,
    read_outcome,
    request_document,
)
from support.tool_running import tool_run


def document(**fields: Json) -> bytes:
    return json.dumps(fields).encode()


QUESTION: dict[str, Json] = {"id": "confirm", "text": "Deploy?", "answer_type": {"type": "boolean"}}


def test_a_command_receives_its_call_answers_and_context() -> None:
    """Secrets are written in plain text only here."""
    tool = CommandTool(CommandSpec(name="deploy", command=("true",)))
    run = tool_run(
        tool, {"env": "staging"}, {"confirm": True, "passphrase": SecretValue("correct horse")}
    )

    assert json.loads(request_document(run, WireWorkspace("/srv/app", "w1"))) == {
        "tool": {
            "name": "deploy",
            "arguments": {"env": "staging"},
            "answers": {"confirm": True, "passphrase": "correct horse"},
        },
        "context": {
            "root": "/srv/app",
            "action": "run",
            "workspace_id": "w1",
            "conversation_id": "c1",
        },
    }


def test_each_kind_of_outcome_is_read() -> None:
    assert read_outcome(document(type="success", content="ok")) == Success("ok")
    assert read_outcome(b'\n {"type":"success","content":""} \n') == Success("")
    assert read_outcome(document(type="error", message="no")) == ToolError("no")
    assert read_outcome(
        document(type="error", message="no", trace=["a"], transient=True)
    ) == ToolError("no", ("a",), transient=True)

    asked = read_outcome(document(type="needs_input", question=QUESTION))
    listed = read_outcome(
        document(type="needs_input", questions=[QUESTION, {**QUESTION, "id": "sure"}])
    )

    assert isinstance(asked, NeedsInput)
    assert isinstance(listed, NeedsInput)
    assert [(q.id, q.text, q.answer_type) for q in asked.form.questions] == [
        ("confirm", "Deploy?", BooleanType())
    ]
    assert [q.id for q in listed.form.questions] == ["confirm", "sure"]


@pytest.mark.parametrize(
    ("stdout", "said"),
    [
        (b"", "nothing was written"),
        (b"  \n", "nothing was written"),
        (b"Deploying...\n", "it begins 'Deploying...\\n'"),
        (b'Deploying\n{"type":"success","content":"x"}', "it begins 'Deploying"),
        (b'{"type":"success","content":"x"}{"type":"success","content":"y"}', "Extra data"),
        (b'{"type":"success","content":"x"}\ndone', "Extra data"),
        (b'{"type":"success","content":', "it begins"),
        (b"\xff\xfe", "utf-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "must be one JSON object; found []"),
        (b'"success"', 'found "success"'),
        (b"9" * 5000, "it begins"),
        (
            b'{"type":"success","content":"x","content":"y"}',
            'the key "content" appears twice in one object',
        ),
        (b'{"type":"error","message":"m","transient":NaN}', "NaN is not JSON"),
        (b'{"type":"success","content":"\\ud800"}', "half of a surrogate pair"),
        (
            document(type="succes", content="x"),
            '/type: must be one of success, error, needs_input; found "succes"',
        ),
        (document(content="x"), "/type: must be one of"),
        (document(type=["success"], content="x"), "/type: must be one of"),
        (document(type="success"), "/content: must be a string; found nothing"),
        (document(type="success", content={"a": 1}), '/content: must be a string; found {"a":1}'),
        (document(type="success", content="x", isError=True), "/isError: unknown field"),
        (
            document(type="error", message="x", transient=1),
            "/transient: must be true or false; found 1",
        ),
        (document(type="error", message="x", trace="t"), "/trace: must be an array of strings"),
        (document(type="needs_input"), "exactly one of `question` and `questions`"),
        (document(type="needs_input", question=QUESTION, questions=[QUESTION]), "exactly one of"),
        (document(type="needs_input", question="Deploy?"), "/question"),
        (document(type="needs_input", questions=[]), "1 to 20"),
        (document(type="needs_input", questions=QUESTION), "/questions"),
    ],
)
def test_other_documents_are_errors_with_the_reason(stdout: bytes, said: str) -> None:
    with pytest.raises(WireError) as raised:
        read_outcome(stdout)

    assert said in str(raised.value)
    assert len(str(raised.value)) < 1_000


def test_an_invalid_question_is_reported_with_its_pointer() -> None:
    with pytest.raises(WireError) as single:
        read_outcome(
            document(type="needs_input", question={**QUESTION, "text": "two\nlines", "kind": 1})
        )
    with pytest.raises(WireError) as several:
        read_outcome(
            document(
                type="needs_input",
                questions=[QUESTION, {"id": "x", "text": "?", "answer_type": {"type": "yes"}}],
            )
        )

    assert "/question/text: " in str(single.value)
    assert "/question/kind: " in str(single.value)
    assert "/questions/1/answer_type" in str(several.value)


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(stdout: bytes) -> None:
    """Some generated texts are valid outcomes, because the samples include them."""
    with suppress(WireError):
        read_outcome(stdout)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "text", "type", "options", "a"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


FIELDS = dict.fromkeys(["content", "message", "trace", "transient", "question", "questions"], JSON)


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["success", "error", "needs_input"])}, optional=FIELDS
    )
)
def test_every_document_is_an_outcome_or_an_error(fields: dict[str, Json]) -> None:
    try:
        outcome = read_outcome(json.dumps(fields).encode())
    except WireError:
        return
    assert isinstance(outcome, Success | ToolError | NeedsInput)


def test_non_json_numbers_are_refused() -> None:
    with pytest.raises(WireError):
        read_outcome(
            json.dumps(
                {"type": "needs_input", "question": {**QUESTION, "default": math.inf}}
            ).encode()
        )

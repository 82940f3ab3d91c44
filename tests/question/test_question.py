"""Checks of new questions. All violated rules are reported at once."""

from __future__ import annotations

import inspect
import pydoc
from enum import Enum
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from inline_snapshot import snapshot

from midturn.errors import AnswerError, QuestionError
from midturn.question.answer_type import SelectOption, SelectType, When
from midturn.question.json_value import Limits, json_equal
from midturn.question.people import time_left
from midturn.question.question import Question
from support.asked_questions import authored_questions
from support.json_values import JSON


class Env(Enum):
    """Where to deploy."""

    STAGING = "staging"
    PRODUCTION = "production"


def problems(authored: object, limits: Limits | None = None) -> list[str]:
    with pytest.raises(QuestionError) as caught:
        Question.from_json(authored, limits or Limits())
    return [str(problem) for problem in caught.value.problems]


def pointers(authored: object) -> list[str]:
    with pytest.raises(QuestionError) as caught:
        Question.from_json(authored)
    return [problem.pointer for problem in caught.value.problems]


def plain(**fields: Any) -> dict[str, Any]:
    return {"id": "q", "text": "Q?", "answer_type": {"type": "boolean"}, **fields}


def test_a_plain_question_has_three_fields() -> None:
    assert Question.boolean("confirm", "Deploy?").to_json() == plain(id="confirm", text="Deploy?")


def test_every_constructor_writes_its_wire_format() -> None:
    assert Question.select(
        "env", "Where?", ["a", SelectOption("b", "the second")], default="b", allow_other=True
    ).to_json() == snapshot(
        {
            "id": "env",
            "text": "Where?",
            "answer_type": {
                "type": "select",
                "options": ["a", {"value": "b", "description": "the second"}],
                "allow_other": True,
            },
            "default": "b",
        }
    )
    assert Question.multi_select(
        "env", "Where?", ["a", 2], min=1, max=2, default=[2, "a"]
    ).to_json() == snapshot(
        {
            "id": "env",
            "text": "Where?",
            "answer_type": {"type": "multi_select", "options": ["a", 2], "min": 1, "max": 2},
            "default": ["a", 2],
        }
    )
    assert Question.secret("word", "Passphrase?").to_json()["answer_type"] == {"type": "secret"}
    assert Question.schema("n", "N?", {"type": "integer"}, default=3).to_json() == plain(
        id="n", text="N?", answer_type={"type": "schema", "schema": {"type": "integer"}}, default=3
    )


def test_terms_are_written_if_they_differ_from_the_default() -> None:
    question = Question.text(
        "note",
        "Why?",
        default="x",
        context="# Why",
        exclusive=True,
        persistence="none",
        optional=True,
        when=When("env", "staging"),
    )
    assert question.to_json() == snapshot(
        {
            "id": "note",
            "text": "Why?",
            "context": "# Why",
            "answer_type": {"type": "text"},
            "default": "x",
            "exclusive": True,
            "persistence": "none",
            "optional": True,
            "when": {"question_id": "env", "equals": "staging"},
        }
    )


def test_a_question_can_have_the_same_name_as_its_constructor() -> None:
    assert Question.text("note", "Why?").text == "Why?"
    assert (
        msgspec.structs.replace(Question.text("note", "Why?"), text="Why not?").text == "Why not?"
    )


@given(authored_questions())
def test_a_written_question_is_read_back(authored: dict[str, Any]) -> None:
    question = Question.from_json(authored)
    assert Question.from_json(question.to_json()) == question
    assert json_equal(
        Question.from_json(msgspec.json.decode(msgspec.json.encode(authored))).to_json(),
        question.to_json(),
    )


def test_the_old_name_of_the_context_is_only_read() -> None:
    assert Question.from_json(plain(pre_amble="Look.")).to_json() == plain(context="Look.")
    assert problems(plain(pre_amble="Look.", context="See."))[0].startswith("/pre_amble: ")


def test_all_problems_are_reported_at_once() -> None:
    authored = {
        "id": "a.b",
        "text": "two\nlines",
        "answer_type": {
            "type": "select",
            "options": ["a", "A ", None, {"value": 1, "describtion": "x"}],
            "optoins": [],
        },
        "exclusive": "yes",
        "persistence": "forever",
        "when": {"question": "x"},
        "defualt": 1,
    }
    assert problems(authored) == snapshot(
        [
            '/defualt: unknown key "defualt". Did you mean `default`?',
            (
                '/id: "a.b" is not an id. Use 1 to 64 of the characters A-Z a-z 0-9 _ - (not'
                " beginning with __)."
            ),
            "/text: the text has 2 lines, but must have one. Put multi-line text in `context`.",
            '/answer_type/optoins: unknown key "optoins". Did you mean `options`?',
            (
                "/answer_type/options/2: null is not an option. Give a string, number or boolean,"
                " or an object with such a `value`."
            ),
            (
                '/answer_type/options/3/describtion: unknown key "describtion". Did you mean'
                " `description`?"
            ),
            '/answer_type/options/1: "A " looks the same as /options/0. Use distinct labels.',
            '/exclusive: `exclusive` must be true or false, not "yes".',
            '/persistence: `persistence` must be "turn", "conversation" or "none", not "forever".',
            '/when/question: unknown key "question". Did you mean `question_id`?',
            (
                "/when/question_id: `question_id` is missing or not a string. Name an earlier"
                " question of the form."
            ),
            (
                "/when/equals: `equals` is missing. Give the answer of the earlier question that"
                " makes this one asked."
            ),
        ]
    )


@pytest.mark.parametrize("id", ["", "a b", "a.b", "__run__", "x" * 65, "é", "a\n", 3, None])
def test_an_id_is_short_and_ascii(id: Any) -> None:
    assert pointers(plain(id=id)) == ["/id"]


BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x84\x85\x8d\u2028\u2029"


@pytest.mark.parametrize(
    "character", BREAKS, ids=[f"U+{ord(character):04X}" for character in BREAKS]
)
def test_a_text_has_no_line_breaks(character: str) -> None:
    assert "2 lines" in problems(plain(text=f"one{character}two"))[0]


def test_every_line_separator_of_python_is_a_line_break() -> None:
    for code in (*range(0xD800), *range(0xE000, 0x110000)):
        if len(f"a{chr(code)}b".splitlines()) > 1:
            assert chr(code) in BREAKS


@pytest.mark.parametrize("text", ["x", "x" * 2_048, "é" * 2_048])
def test_a_text_has_at_most_2048_characters(text: str) -> None:
    assert Question.from_json(plain(text=text)).text == text


@pytest.mark.parametrize("text", ["", " ", "\u3000", "x" * 2_049, 3, None])
def test_an_empty_or_too_long_text_is_refused(text: Any) -> None:
    assert pointers(plain(text=text)) == ["/text"]


def test_the_context_size_is_counted_in_bytes() -> None:
    assert Question.from_json(plain(context="x" * 16_384)).context
    assert "16,386 bytes" in problems(plain(context="é" * 8_193))[0]


def test_limits_are_configurable() -> None:
    tight = Limits(question=3, context=4, options=1)
    authored = plain(
        text="Long?", context="longer", answer_type={"type": "select", "options": ["a", "b"]}
    )
    assert [message.split(":")[0] for message in problems(authored, tight)] == [
        "/text",
        "/context",
        "/answer_type/options",
    ]


@pytest.mark.parametrize(
    "options",
    [
        ["a", "a"],
        [1, 1.0],
        [True, True],
        ["a", "A"],
        ["a", " a "],
        ["ﬁ", "fi"],
        ["ß", "SS"],
        [3, "3"],
        [True, "TRUE"],
        ["é", "e\u0301"],
        [{"value": "a", "description": "one"}, "a"],
    ],
    ids=repr,
)
def test_equal_or_identically_displayed_options_are_refused(options: list[Any]) -> None:
    assert pointers(plain(answer_type={"type": "select", "options": options})) == [
        "/answer_type/options/1"
    ]


@pytest.mark.parametrize(
    "options", [[True, 1], [False, 0, "off"], [0.5, "0.50"], ["a", "b"], [1]], ids=repr
)
def test_different_options_are_kept(options: list[Any]) -> None:
    assert Question.from_json(plain(answer_type={"type": "select", "options": options})).to_json()[
        "answer_type"
    ] == {
        "type": "select",
        "options": options,
    }


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "integer", "minimum": 5, "maximum": 1}, "minimum"),
        ({"type": "string", "minLength": 5, "maxLength": 1}, "minLength"),
        ({"type": "array", "minItems": 2, "maxItems": 1}, "minItems"),
        ({"type": "object", "minProperties": 2, "maxProperties": 1}, "minProperties"),
    ],
)
def test_contradictory_bounds_are_refused(schema: dict[str, Any], pointer: str) -> None:
    assert pointers(plain(answer_type={"type": "schema", "schema": schema})) == [
        f"/answer_type/schema/{pointer}"
    ]


def test_bounds_may_allow_a_single_number() -> None:
    assert Question.number("n", "How many?", min=5, max=5).check(5) == 5
    with pytest.raises(
        QuestionError, match=r"`minimum` is 5, which is greater than `maximum` \(1\)[.] Lower it"
    ):
        Question.number("n", "How many?", min=5, max=1)


class Safe(str):
    """A string marked as safe for templates, as in web frameworks."""

    __slots__ = ()


class Count(int):
    """A number of something."""


def test_options_of_subclasses_become_plain_values() -> None:
    question = Question.select(
        "r",
        "Which?",
        [Safe("a"), Count(3), Env.STAGING.value, SelectOption(Safe("b"), Safe("said"))],
    )

    assert isinstance(question.answer_type, SelectType)
    options = question.answer_type.options
    assert [(option.value, type(option.value)) for option in options] == [
        ("a", str),
        (3, int),
        ("staging", str),
        ("b", str),
    ]
    assert type(options[3].description) is str


def test_an_invalid_option_is_refused_with_its_index() -> None:
    options: list[Any] = ["a", SelectOption(cast("str", object()))]
    with pytest.raises(
        QuestionError, match="/answer_type/options/1/value: a Python object is not JSON"
    ):
        Question.select("r", "Which?", options)


@pytest.mark.parametrize("options", [None, "abc", {}, [], list(range(201)), 3])
def test_a_select_has_1_to_200_options(options: Any) -> None:
    assert pointers(plain(answer_type={"type": "select", "options": options})) == [
        "/answer_type/options"
    ]
    assert Question.select("q", "Q?", list(range(200))).check(199) == 199


@pytest.mark.parametrize(
    ("bounds", "pointer"),
    [
        ({"min": -1}, "min"),
        ({"min": True}, "min"),
        ({"min": 1.5}, "min"),
        ({"min": 3}, "min"),
        ({"min": 2, "max": 1}, "min"),
        ({"max": 0}, "max"),
        ({"max": "2"}, "max"),
        ({"allow_other": 1}, "allow_other"),
    ],
)
def test_bounds_must_be_reachable(bounds: dict[str, Any], pointer: str) -> None:
    assert pointers(
        plain(answer_type={"type": "multi_select", "options": ["a", "b"], **bounds})
    ) == [f"/answer_type/{pointer}"]


def test_own_words_count_as_a_choice() -> None:
    assert Question.multi_select("q", "Q?", ["a"], min=2, allow_other=True).check(
        ["a", {"other": "b"}]
    )


@pytest.mark.parametrize(
    ("answer_type", "default"),
    [
        ({"type": "boolean"}, "true"),
        ({"type": "boolean"}, None),
        ({"type": "select", "options": ["a"]}, "b"),
        ({"type": "multi_select", "options": ["a"]}, "a"),
        ({"type": "text"}, 3),
        ({"type": "schema", "schema": {"type": "integer"}}, "3"),
        ({"type": "secret"}, "hunter2"),
    ],
)
def test_a_default_must_be_a_valid_answer(answer_type: Any, default: Any) -> None:
    found = problems(plain(answer_type=answer_type, default=default))
    assert [message.split(":")[0] for message in found] == ["/default"]
    assert "hunter2" not in found[0]


def test_a_default_is_stored_in_answer_form() -> None:
    question = Question.from_json(
        plain(answer_type={"type": "multi_select", "options": [1, "b"]}, default=["b", 1.0])
    )
    assert msgspec.json.encode(question.default) == b'[1,"b"]'


@pytest.mark.parametrize(
    "answer_type",
    [
        "boolean",
        None,
        [],
        {},
        {"type": None},
        {"type": "bool"},
        {"type": ["select"]},
        {"type": {}},
        {"type": "schema"},
        {"type": "schema", "schema": True},
    ],
    ids=repr,
)
def test_the_answer_type_must_be_one_of_six(answer_type: Any) -> None:
    assert all(
        pointer.startswith("/answer_type") for pointer in pointers(plain(answer_type=answer_type))
    )


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"context": 3}, "/context"),
        ({"when": "env"}, "/when"),
        (
            {"answer_type": {"type": "select", "options": [{"value": "a", "description": 3}]}},
            "/answer_type/options/0/description",
        ),
        (
            {"answer_type": {"type": "select", "options": [{"description": "a"}]}},
            "/answer_type/options/0",
        ),
        ({"answer_type": {"type": "select", "options": ["x" * 2_049]}}, "/answer_type/options/0"),
    ],
)
def test_the_type_of_every_field_is_checked(wrong: dict[str, Any], pointer: str) -> None:
    assert pointers(plain(**wrong)) == [pointer]


def test_a_key_of_another_answer_type_is_unknown() -> None:
    assert pointers(plain(answer_type={"type": "text", "options": ["a"]})) == [
        "/answer_type/options"
    ]


def test_schema_problems_have_a_pointer_into_the_question() -> None:
    schema = {"properties": {"a": {"$ref": "http://example.com/x"}}}
    assert pointers(plain(answer_type={"type": "schema", "schema": schema})) == [
        "/answer_type/schema/properties/a/$ref"
    ]


@pytest.mark.parametrize(
    "authored",
    [None, [], "x", 3, {}, {"\ud800": 1}, {1: 2}, plain(context="\udfff"), float("nan")],
    ids=repr,
)
def test_other_values_are_refused_as_a_question(authored: Any) -> None:
    assert problems(authored)


@given(JSON)
def test_any_json_is_checked(authored: Any) -> None:
    """Any generated value ends in a list of problems, not in another error."""
    assert problems(authored)


def test_many_unknown_keys_are_not_all_listed() -> None:
    found = problems({f"k{number}": 1 for number in range(10_000)})
    assert len(found) < 30
    assert any("9,980 more unknown keys" in message for message in found)


def test_constructors_apply_the_same_rules() -> None:
    with pytest.raises(QuestionError) as caught:
        Question.select("a b", "two\nlines", ["x", "X"], default="z")
    assert [problem.pointer for problem in caught.value.problems] == [
        "/id",
        "/text",
        "/answer_type/options/1",
    ]
    with pytest.raises(TypeError, match="contxt"):
        Question.boolean("a", "A?", contxt="x")  # pyright: ignore[reportCallIssue]  # what a typo does
    with pytest.raises(
        QuestionError, match=r"must be a list of 1 or more values to choose from, not \"abc\""
    ):
        Question.select("a", "A?", "abc")


def test_a_question_built_from_fields_is_checked() -> None:
    broken: Any = {
        "id": "a.b",
        "text": "two\nlines",
        "answer_type": {"type": "boolean"},
        "exclusive": "no",
        "default": 3,
    }
    with pytest.raises(QuestionError) as caught:
        Question(**broken)
    assert [problem.pointer for problem in caught.value.problems] == [
        "/id",
        "/text",
        "/exclusive",
        "/default",
    ]
    built: Any = {
        "id": "a",
        "text": "A?",
        "answer_type": SelectType((SelectOption("x"),)),
        "default": "x",
        "when": When("b", equals=True),
    }
    assert Question(**built) == Question.select(
        "a", "A?", ["x"], default="x", when=When("b", equals=True)
    )


def test_text_and_number_rules_become_schemas() -> None:
    name = Question.text("name", "Name?", pattern="^[a-z]+$", min_length=2, max_length=3)
    assert name.to_json()["answer_type"] == {
        "type": "schema",
        "schema": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 3},
    }
    assert name.check("abc") == "abc"
    for wrong in ("a", "abcd", "A1", 3):
        with pytest.raises(AnswerError):
            name.check(wrong)
    count = Question.number("count", "How many?", type=int, min=1, max=5, default=2)
    assert count.to_json()["answer_type"] == {
        "type": "schema",
        "schema": {"type": "integer", "minimum": 1, "maximum": 5},
    }
    for wrong in (0, 6, 1.5, "3", True):
        with pytest.raises(AnswerError):
            count.check(wrong)
    assert repr(Question.number("ratio", "Ratio?").typed(3)) == "3.0"


def test_constructor_docstrings_describe_their_arguments() -> None:
    for name in ("boolean", "select", "multi_select", "text", "number", "secret", "schema"):
        constructor = getattr(Question, name)
        shown = pydoc.plain(pydoc.render_doc(constructor))
        for parameter in inspect.signature(constructor).parameters:
            assert f"  {parameter}: " in shown, (name, parameter)


def test_an_enum_is_asked_by_value_and_returns_members() -> None:
    question = Question.select("env", "Where?", Env, default=Env.STAGING)
    assert question.to_json()["answer_type"] == {
        "type": "select",
        "options": ["staging", "production"],
    }
    assert question.default == "staging"
    assert question.typed(question.check("production")) is Env.PRODUCTION
    assert question.typed(None) is None
    own = Question.multi_select("envs", "Where?", ["a"], allow_other=True)
    assert own.typed(own.check([{"other": "b"}])) == [{"other": "b"}]
    many = Question.multi_select("envs", "Where?", Env, default=[Env.PRODUCTION])
    assert many.typed(many.check(["production", "staging"])) == [Env.STAGING, Env.PRODUCTION]


class Address(msgspec.Struct):
    """Where somebody lives."""

    street: str
    number: int | None = None


class Person(msgspec.Struct):
    """Somebody with homes."""

    name: str
    homes: list[Address] = []


def test_a_type_is_asked_by_its_schema_and_returns_instances() -> None:
    question = Question.schema("who", "Who?", Person, default=Person("Ada"))
    assert question.default == {"name": "Ada", "homes": []}
    answer = question.check({"name": "Eve", "homes": [{"street": "Main"}]})
    assert question.typed(answer) == Person("Eve", [Address("Main")])
    asked = question.persisted().asked("who")
    assert asked.check(answer) == answer


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, 3), (list[str], ["a"]), (dict[str, float], {"a": 1.5}), (bool, True), (str, "x")],
)
def test_simple_types_have_schemas(kind: type[Any], value: Any) -> None:
    question = Question.schema("v", "V?", kind)
    assert question.typed(question.check(value)) == value


def test_a_value_refused_by_the_type_is_not_an_answer() -> None:
    class Even(msgspec.Struct):
        n: int

        def __post_init__(self) -> None:
            if self.n % 2:
                raise ValueError("odd")

    question = Question.schema("even", "Even?", Even)
    assert question.check({"n": 4}) == {"n": 4}
    with pytest.raises(AnswerError, match="odd"):
        question.check({"n": 3})


class Tree(msgspec.Struct):
    """A type that has itself inside."""

    kids: list[Tree]


@pytest.mark.parametrize("kind", [Tree, object()], ids=["recursive", "object"])
def test_a_type_outside_the_schema_subset_is_refused(kind: Any) -> None:
    with pytest.raises(QuestionError) as caught:
        Question.schema("t", "T?", kind)
    assert caught.value.problems[0].pointer.startswith("/answer_type/schema")


def test_a_set_is_answered_as_a_list() -> None:
    question = Question.schema("s", "S?", set[int])
    assert question.typed(question.check([1])) == {1}


def test_a_default_outside_json_is_refused() -> None:
    with pytest.raises(QuestionError, match="default"):
        Question.schema("t", "T?", {}, default=object())


@pytest.mark.parametrize(
    ("now", "asked_at", "left"),
    [
        ("12:00:00", "12:00:00", "4 h left"),
        ("12:00:01", "12:00:00", "3 h 59 min left"),
        ("15:00:00", "12:00:00", "only 1 hour left"),
        ("15:58:59", "12:00:00", "only 1 minute 1 second left"),
        ("15:59:59", "12:00:00", "only 1 second left"),
        ("16:00:00", "12:00:00", "the deadline has passed"),
        ("15:00:00", "", "1 h left"),
    ],
)
def test_the_remaining_time_is_shown_in_the_last_quarter(
    now: str, asked_at: str, left: str
) -> None:
    def at(time: str) -> str:
        return time and f"2030-01-01T{time}.000000Z"

    assert time_left(at(now), at(asked_at), at("16:00:00")) == left


def test_an_unreadable_deadline_has_no_remaining_time() -> None:
    assert time_left("2030-01-01T12:00:00Z", "", "soon") == ""

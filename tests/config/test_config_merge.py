"""Layers are merged field by field, and merging is associative."""

from __future__ import annotations

from hypothesis import given, strategies as st

from midturn.config.check import Checker
from midturn.config.keys import KEYS
from midturn.config.tree import Origin, Tree, TreeEntry, entries, merge
from midturn.question.json_value import Json

_questions = st.dictionaries(
    st.sampled_from(["*", "confirm", "region"]),
    st.fixed_dictionaries(
        {},
        optional={
            "answer": st.integers(0, 9),
            "exclusive": st.booleans(),
            "target": st.sampled_from(
                [
                    "user",
                    "assistant",
                    "assistant_with_escalation",
                    {"escalation": True},
                    {"model": {"id": "a/b"}},
                    {"model": {"parameters": {"t": 1}}, "escalation": False},
                ]
            ),
        },
    ),
    max_size=3,
)
_tools = st.dictionaries(
    st.sampled_from(["*", "deploy", "ask_user"]),
    st.fixed_dictionaries(
        {},
        optional={
            "run": st.sampled_from(["ask", "skip"]),
            "detached": st.sampled_from(
                ["deny", {"run": "auto"}, {"tool": "defer", "run": "deny"}]
            ),
            "enable": st.sampled_from([True, False, {"state": True}, {"allow_toggle": "never"}]),
            "questions": _questions,
        },
    ),
    max_size=3,
)
_documents = st.fixed_dictionaries(
    {"conversation": st.fixed_dictionaries({"tools": _tools})},
    optional={"limits": st.dictionaries(st.sampled_from(["cycles", "form"]), st.integers(1, 9))},
)


def layer(document: dict[str, Json], name: str) -> Tree:
    checker = Checker(Origin(name))
    tree = checker.read(document)
    assert not checker.problems
    return tree


def layered(*documents: dict[str, Json]) -> list[Tree]:
    return [layer(document, str(index)) for index, document in enumerate(documents)]


@given(_documents, _documents, _documents)
def test_merging_is_associative(
    one: dict[str, Json], two: dict[str, Json], three: dict[str, Json]
) -> None:
    low, middle, high = layered(one, two, three)

    assert merge(merge(low, middle, KEYS), high, KEYS) == merge(
        low, merge(middle, high, KEYS), KEYS
    )


@given(_documents)
def test_an_empty_layer_changes_nothing(document: dict[str, Json]) -> None:
    tree = layer(document, "only")

    assert merge(tree, {}, KEYS) == tree
    assert merge({}, tree, KEYS) == tree


@given(_documents, _documents)
def test_higher_layer_overrides_and_other_fields_are_kept(
    one: dict[str, Json], two: dict[str, Json]
) -> None:
    low, high = layered(one, two)
    found = dict(entries(merge(low, high, KEYS)))
    above, below = dict(entries(high)), dict(entries(low))

    assert above.items() <= found.items()
    for path, kept in below.items():
        expected = above.get(path) or _star(above, path) or kept
        assert path not in found or found[path] == expected
        assert path in found or _star(above, path) is not None


def _star(above: dict[tuple[str, ...], TreeEntry], path: tuple[str, ...]) -> TreeEntry | None:
    """Return the higher layer's value for all questions, which replaces the lower layer's value
    for this question.
    """
    return above.get((*path[:4], "*", *path[5:])) if path[3:4] == ("questions",) else None

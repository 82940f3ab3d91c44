"""Values of flags that must not stand in a conversation for all to read: answers, which may be to secrets, and private keys.

They are recorded all the same, for `resume` works under them: closed with a key of the user's, which lies outside every workspace. The
cipher is a keystream of HMAC-SHA-256 in counter mode; the seal of the whole delta vouches for what is closed.
"""

from __future__ import annotations

import itertools
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Final, cast

import msgspec

from midturn.config.assign import Assignment, parse_key
from midturn.config.keys import KEYS, QUESTION
from midturn.config.nodes import Branch, Leaf, Node
from midturn.core.json_value import Json, canonical

CLOSED: Final = "sealed"
"""The one key of the object that stands in the place of a closed value."""

_ANSWER: Final = QUESTION.keys["answer"]
_PURPOSE: Final = b"midturn: values of flags"
_NONCE: Final = 16
_BLOCK: Final = 32


class _Gone:
    """Stands for a value that is left out."""


_GONE: Final = _Gone()
_Change = Callable[[Json, Leaf], "Json | _Gone"]


def close_values(assignments: tuple[Assignment, ...], key: bytes) -> tuple[Assignment, ...]:
    """Return the assignments with every such value closed."""
    return _changed(assignments, lambda value, _: {CLOSED: _close(value, key)})


def open_values(assignments: tuple[Assignment, ...], key: bytes) -> tuple[Assignment, ...]:
    """Return the assignments as they were given; what cannot be opened is left out."""
    return _changed(assignments, lambda value, _: _open(value, key))


def leave_out_values(assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    """Return the assignments without any such value: there is no key to close them with."""
    return _changed(assignments, lambda _value, _leaf: _GONE)


def stay_closed(assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    """Return what somebody else's delta says: private values are left out, answers stay closed, so that they can be named."""
    return _changed(assignments, lambda value, leaf: value if leaf is _ANSWER else _GONE)


def _changed(assignments: tuple[Assignment, ...], change: _Change) -> tuple[Assignment, ...]:
    changed = ((one, _walk(one.value, _node(one), change)) for one in assignments)
    return tuple(msgspec.structs.replace(one, value=value) for one, value in changed if not isinstance(value, _Gone))


def _node(assignment: Assignment) -> Node:
    node: Node = KEYS
    for name in parse_key(assignment.key, assignment.origin) if assignment.key else ():
        node = node.child(name) if isinstance(node, Branch) else node
    return node


def _walk(value: Json, node: Node, change: _Change) -> Json | _Gone:
    if isinstance(node, Leaf):
        return change(value, node) if node is _ANSWER or (node.private and isinstance(value, str | Mapping)) else value
    if not isinstance(value, Mapping):
        return value
    table = cast("Mapping[str, Json]", value)
    changed = {name: _walk(below, node.child(name), change) for name, below in table.items()}
    return {name: below for name, below in changed.items() if not isinstance(below, _Gone)}


def _close(value: Json, key: bytes) -> str:
    import secrets  # only a flag with such a value needs it

    nonce, text = secrets.token_bytes(_NONCE), canonical(value)
    return b64encode(nonce + _mixed(text, nonce, key)).decode()


def _open(value: Json, key: bytes) -> Json | _Gone:
    closed = cast("Mapping[str, Json]", value).get(CLOSED) if isinstance(value, Mapping) else None
    if not isinstance(closed, str):
        return _GONE
    try:
        data = b64decode(closed, validate=True)
        return cast("Json", msgspec.json.decode(_mixed(data[_NONCE:], data[:_NONCE], key)))
    except ValueError:  # of another key, or no base64
        return _GONE


def _mixed(text: bytes, nonce: bytes, key: bytes) -> bytes:
    """Combine the text with the keystream: what closes also opens."""
    import hmac  # as above

    own = hmac.digest(key, _PURPOSE, "sha256")
    blocks = (hmac.digest(own, nonce + number.to_bytes(8, "big"), "sha256") for number in itertools.count())
    stream = b"".join(itertools.islice(blocks, -(-len(text) // _BLOCK)))
    return bytes(one ^ other for one, other in zip(text, stream, strict=False))

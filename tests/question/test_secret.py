from __future__ import annotations

import copy
import json
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from midturn.events.types import encode_custom
from midturn.question.json_value import SecretValue

WORD = "hunter2-opensesame"
SECRET = SecretValue(WORD)


def test_only_reveal_returns_the_value() -> None:
    assert SECRET.reveal() == WORD


@pytest.mark.parametrize(
    "shown",
    [
        repr(SECRET),
        str(SECRET),
        f"{SECRET}",
        f"{SECRET!r:>40}",
        repr([SECRET]),
        repr({"a": SECRET}),
    ],
)
def test_text_representations_hide_the_value(shown: str) -> None:
    assert WORD not in shown


def with_hook(secret: Any) -> bytes:
    return msgspec.json.encode(secret, enc_hook=encode_custom)


def state(secret: Any) -> Any:
    return secret.__getstate__()


TAKERS: list[Callable[[Any], Any]] = [
    *(
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        json.dumps,
        msgspec.json.encode,
        msgspec.to_builtins,
        with_hook,
        state,
        hash,
        vars,
    )
]


@pytest.mark.parametrize("take", TAKERS)
def test_copying_and_serialization_do_not_leak_the_value(take: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, NotImplementedError)) as caught:
        take(SECRET)
    assert WORD not in "".join(traceback.format_exception(caught.value))


def test_a_secret_equals_only_an_equal_secret() -> None:
    assert SecretValue("a") == SecretValue("a")
    assert SecretValue("a") != SecretValue("b")
    assert SecretValue("a") != "a"

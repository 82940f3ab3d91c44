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


def test_only_reveal_gives_it_out() -> None:
    assert SECRET.reveal() == WORD


@pytest.mark.parametrize("shown", [repr(SECRET), str(SECRET), f"{SECRET}", f"{SECRET!r:>40}", repr([SECRET]), repr({"a": SECRET})])
def test_no_text_of_it_shows_it(shown: str) -> None:
    assert WORD not in shown


def with_hook(secret: Any) -> bytes:
    return msgspec.json.encode(secret, enc_hook=encode_custom)


def state(secret: Any) -> Any:
    return secret.__getstate__()


TAKERS: list[Callable[[Any], Any]] = [
    *(pickle.dumps, copy.copy, copy.deepcopy, json.dumps, msgspec.json.encode, msgspec.to_builtins, with_hook, state, hash, vars)
]


@pytest.mark.parametrize("take", TAKERS)
def test_nothing_that_copies_or_writes_values_gets_it(take: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, NotImplementedError)) as caught:
        take(SECRET)
    assert WORD not in "".join(traceback.format_exception(caught.value))


def test_equal_secrets_are_equal_and_no_string_is() -> None:
    assert SecretValue("a") == SecretValue("a")
    assert SecretValue("a") != SecretValue("b")
    assert SecretValue("a") != "a"

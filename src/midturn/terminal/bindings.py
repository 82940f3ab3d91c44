"""The key bindings that prompt_toolkit makes for every application, made once a process.

It makes some six hundred of them each time, which takes longer than drawing a prompt; ours uses none, for `KeyInput` keeps all keys. They
have no state, so that an application of a host's which is made at the same moment may have the same ones.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

from prompt_toolkit.application import application
from prompt_toolkit.key_binding.bindings.page_navigation import load_page_navigation_bindings
from prompt_toolkit.key_binding.defaults import load_key_bindings

_MAKER: Any = application  # the module in which applications call what makes their bindings
_KEYS = cache(load_key_bindings)
_PAGES = cache(load_page_navigation_bindings)


@contextmanager
def bindings_made_once() -> Generator[None]:
    """Have applications that are made in the block share their bindings."""
    before = _MAKER.load_key_bindings, _MAKER.load_page_navigation_bindings
    _MAKER.load_key_bindings, _MAKER.load_page_navigation_bindings = _KEYS, _PAGES
    try:
        yield
    finally:
        _MAKER.load_key_bindings, _MAKER.load_page_navigation_bindings = before

"""A short run of the fuzzers: seeds, inputs that once failed, and a few mutations.

`make fuzz` runs them for longer.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings

sys.path.insert(0, str(Path(__file__).parents[2]))

from fuzz.__main__ import NAMES
from fuzz.mutations import mutated
from fuzz.seeds import seeds
from fuzz.targets import TARGETS

EVERY_CHECK = cast("list[HealthCheck]", [*HealthCheck])
MANY = int(os.environ.get("MIDTURN_FUZZ_EXAMPLES", "60"))


def test_every_target_has_seeds_that_get_far() -> None:
    assert set(TARGETS) == set(seeds()) == set(NAMES)
    assert {
        name for name in NAMES if not any(TARGETS[name](data) for data in seeds()[name])
    } == set()


@pytest.mark.parametrize("name", NAMES)
def test_no_input_breaks_a_promise(name: str) -> None:
    @settings(max_examples=MANY, deadline=None, suppress_health_check=EVERY_CHECK)
    @given(mutated(seeds()[name]))
    def run(data: bytes) -> None:
        TARGETS[name](data)

    for data in seeds()[name]:
        TARGETS[name](data)
    run()

"""`make attacks` reports every promise and detects attacks that succeeded and tests that are
missing.
"""

from __future__ import annotations

from pathlib import Path

import attacks

TABLE = """
| promise | tests |
| --- | --- |
| 1. it holds | `tests/a`, `tests/b.py` |
| 2. so does this | `tests/b.py` |
"""
PROMISED = attacks.promises(TABLE)
REPORT = """<testsuites><testsuite>
<testcase classname="tests.a.test_x" file="tests/a/test_x.py" name="test_1"/>
<testcase classname="tests.a.test_x" file="tests/a/test_x.py" name="test_2"><skipped/></testcase>
<testcase classname="tests.b" file="tests/b.py" name="test_3"><failure/></testcase>
<testcase classname="" name="tests.b"><error/></testcase>
</testsuite></testsuites>"""


def test_tests_named_in_security_md_exist() -> None:
    promised = attacks.promises((attacks.ROOT / "SECURITY.md").read_text(encoding="utf-8"))

    assert [promise.partition(".")[0] for promise in promised] == [
        str(number) for number in range(1, len(promised) + 1)
    ]
    assert [
        place
        for places in promised.values()
        for place in places
        if not (attacks.ROOT / place).exists()
    ] == []


def test_attacks_are_counted_by_promise_and_once_in_total(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)

    assert list(attacks.table(PROMISED, attacks.outcomes(report), ["tests/b.py"])) == [
        "    4 attacks, 2 worked, 1 not tried: 1. it holds; tests/b.py is missing",
        "    2 attacks, 2 worked, 0 not tried: 2. so does this; tests/b.py is missing",
        "    4 attacks, 2 worked, 1 not tried: in all",
    ]

import importlib.metadata
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from midturn.extras import install_command

ROOT = Path(__file__).parents[1]


class _Installed:
    def __init__(self, direct_url: str | None) -> None:
        self._direct_url = direct_url

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._direct_url


def command_after_installing(monkeypatch: pytest.MonkeyPatch, direct_url: object) -> str:
    recorded = (
        direct_url if isinstance(direct_url, str) or direct_url is None else json.dumps(direct_url)
    )

    def distribution(_: str) -> _Installed:
        return _Installed(recorded)

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    return install_command("web")


def test_checkout_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checkout = tmp_path / "it's a checkout"
    checkout.mkdir()

    plain = command_after_installing(monkeypatch, {"url": checkout.as_uri(), "dir_info": {}})
    editable = command_after_installing(
        monkeypatch, {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    )

    assert shlex.split(plain) == ["pip", "install", f"{checkout}[web]"]
    assert shlex.split(editable) == ["pip", "install", "-e", f"{checkout}[web]"]


def test_checkout_in_the_working_directory_is_a_dot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        command_after_installing(monkeypatch, {"url": tmp_path.as_uri(), "dir_info": {}})
        == "pip install '.[web]'"
    )


def test_checkout_that_was_removed_is_a_dot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert (
        command_after_installing(monkeypatch, {"url": (tmp_path / "gone").as_uri(), "dir_info": {}})
        == "pip install '.[web]'"
    )


def test_removed_working_directory_still_gives_a_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    working.rmdir()
    assert (
        command_after_installing(monkeypatch, {"url": tmp_path.as_uri(), "dir_info": {}})
        == f"pip install '{tmp_path}[web]'"
    )


@pytest.mark.parametrize(
    ("direct_url", "requirement"),
    [
        (None, "midturn[web]"),
        ("not JSON", "midturn[web]"),
        ("{}", "midturn[web]"),
        (
            {"url": "https://example.org/midturn-1.whl", "archive_info": {}},
            "midturn[web] @ https://example.org/midturn-1.whl",
        ),
        (
            {
                "url": "https://example.org/midturn.git",
                "vcs_info": {"vcs": "git", "commit_id": "abc"},
            },
            "midturn[web] @ git+https://example.org/midturn.git@abc",
        ),
    ],
)
def test_other_origins_are_named_as_recorded(
    monkeypatch: pytest.MonkeyPatch, direct_url: object, requirement: str
) -> None:
    assert shlex.split(command_after_installing(monkeypatch, direct_url)) == [
        "pip",
        "install",
        requirement,
    ]


def test_copy_that_nothing_installed_names_its_checkout() -> None:
    code = "from midturn.extras import install_command; print(install_command('web'))"
    blind = (
        "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p];"
        f" sys.path.insert(0, {str(ROOT / 'src')!r})"
    )
    here = "import msgspec\n" + blind + "\n" + code  # the function's only dependency
    done = subprocess.run(
        [sys.executable, "-c", here], cwd="/", capture_output=True, text=True, check=True
    )
    assert shlex.split(done.stdout) == ["pip", "install", f"{ROOT}[web]"]


def test_no_message_writes_the_command_itself() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        if path.name != "extras.py":
            assert not re.search(r"pip install \S*\[", path.read_text(encoding="utf-8")), path

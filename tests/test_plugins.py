"""Plug-ins are found by their entry points and cannot replace built-in names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn.errors import ConfigError
from midturn.integrations.hooks.clients import BUILT_IN
from midturn.plugins import Registry
from midturn.stores.opening import open_store, store_at
from midturn.stores.workspace import folder_of
from support.cli import CommandLine
from support.plugins import install

SHELF = """
from pathlib import Path
from midturn import MemoryStore
from midturn.stores.opening import FileStore
def open_shelf(address, limits):
    return FileStore(Path(address.partition("://")[2]), limits=limits)
def open_memory(address, limits):
    return MemoryStore()
def open_nothing(address, limits):
    return "a store"
not_a_function = 3
"""


def _is_text(found: object, _name: str) -> bool:
    return isinstance(found, str)


COLOURS: Registry[str] = Registry(kind="tool", built_in=("red",), fits=_is_text, ought="text")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on `sys.path` where packages are installed."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    yield tmp_path / "packages"
    for name in set(sys.modules) - before:
        if name.startswith("brought_"):
            del sys.modules[name]


def test_plugin_is_loaded_by_name(place: Path) -> None:
    install(place, "brought_blue", {"tools": {"blue": "brought_blue:COLOUR"}}, "COLOUR = 'blue'")

    assert COLOURS.load("blue") == "blue"
    assert COLOURS.added == {"blue": "brought-blue 1.0"}


def test_listing_plugins_imports_nothing(place: Path) -> None:
    install(
        place,
        "brought_broken",
        {"tools": {"grey": "brought_broken:COLOUR"}},
        "raise RuntimeError('at import')",
    )

    assert COLOURS.added == {"grey": "brought-broken 1.0"}
    assert "brought_broken" not in sys.modules


def test_metadata_is_not_imported_without_plugins() -> None:
    code = (
        "import sys; from midturn.stores.opening import STORES; print(STORES.added,"
        " 'importlib.metadata' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "{} False\n"


@pytest.mark.parametrize(
    "code",
    [
        "raise RuntimeError('no luck')",
        "import sys; sys.exit('no luck')",
        "import no_luck",
        "",
        "COLOUR = 3",
    ],
)
def test_error_names_a_package_that_fails_to_load(place: Path, code: str) -> None:
    install(place, "brought_broken", {"tools": {"grey": "brought_broken:COLOUR"}}, code)

    with pytest.raises(
        ConfigError,
        match=(
            r"^The tool `grey` of brought-broken 1.0 cannot be (loaded \(|used: ).* Update that"
            r" package"
        ),
    ):
        COLOURS.load("grey")


@pytest.mark.parametrize("text", ["[midturn.tools]\nblue\n", "[midturn.tools]\n\udcff\n"])
def test_unreadable_entry_points_do_not_affect_other_packages(place: Path, text: str) -> None:
    install(place, "brought_blue", {"tools": {"blue": "brought_blue:COLOUR"}}, "COLOUR = 'blue'")
    install(place, "brought_odd", {"tools": {}})
    (place / "brought_odd-1.0.dist-info" / "entry_points.txt").write_text(
        text, errors="surrogateescape"
    )

    assert COLOURS.load("blue") == "blue"
    assert [COLOURS.problem(plugin) for plugin in COLOURS.declared] == [
        "The entry points of brought-odd 1.0 cannot be read. Update that package, or uninstall it.",
        "",
    ]


def test_error_names_both_packages_that_add_one_name(place: Path) -> None:
    for package in ("brought_one", "brought_two"):
        install(place, package, {"tools": {"blue": f"{package}:COLOUR"}}, "COLOUR = 'blue'")

    with pytest.raises(
        ConfigError,
        match=(
            r"^Several packages add the tool `blue`: brought-one 1.0 and brought-two 1.0\."
            r" Uninstall"
        ),
    ):
        COLOURS.load("blue")


def test_plugin_cannot_replace_a_built_in(place: Path) -> None:
    install(
        place,
        "brought_red",
        {"tools": {"red": "brought_red:COLOUR", "--help": "brought_red:COLOUR"}},
        "COLOUR = 'mine'",
    )

    assert COLOURS.added == {}
    assert [COLOURS.problem(plugin) for plugin in COLOURS.declared] == [
        (
            "brought-red 1.0: '--help' is not a valid name for a tool; it must match"
            " `[a-z][a-z0-9-]*`."
        ),
        "brought-red 1.0 cannot replace the tool `red`, which is built in.",
    ]


def test_working_directory_is_not_searched_for_plugins(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(place, "brought_blue", {"tools": {"blue": "brought_blue:COLOUR"}}, "COLOUR = 'blue'")
    monkeypatch.chdir(place)

    assert COLOURS.added == {}


def test_unknown_name_lists_the_available_names(place: Path) -> None:
    install(place, "brought_blue", {"tools": {"blue": "brought_blue:COLOUR"}})

    with pytest.raises(ConfigError) as refused:
        COLOURS.load("green")
    assert str(refused.value).startswith(
        "There is no tool `green`. Available: `red`, `blue`. A package that adds it must be"
        " installed "
    )


# --------------------------------------------------------------------------------------------------
# Stores


@pytest.fixture
def shelf(place: Path) -> Path:
    """A package that adds a store."""
    functions = {
        "shelf": "open_shelf",
        "memory": "open_memory",
        "nothing": "open_nothing",
        "number": "not_a_function",
    }
    stores = {name: f"brought_shelf:{function}" for name, function in functions.items()}
    return install(place, "brought_shelf", {"stores": stores}, SHELF)


def test_plugin_store_is_opened_by_its_address(shelf: Path, tmp_path: Path) -> None:
    del shelf
    store = open_store(f"shelf://{tmp_path}/kept")
    conversation = store.new_sync("Kept on a shelf")

    assert open_store(f"SHELF://{tmp_path}/kept").read_sync(conversation).title == "Kept on a shelf"
    assert (tmp_path / "kept").is_dir()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nothing://here", "its entry point returned str, which is not a `ConversationStore`"),
        ("number://here", "`brought_shelf:not_a_function` is not a function of an address"),
        (
            "unknown://here",
            (
                "There is no store `unknown://…`. Available: `postgresql://…`, `postgres://…`,"
                " `memory://…`, `nothing://…`, "
            ),
        ),
    ],
)
def test_invalid_store_address_is_rejected(shelf: Path, address: str, said: str) -> None:
    del shelf
    with pytest.raises(ConfigError) as refused:
        store_at(address)
    assert said in str(refused.value)


@pytest.mark.parametrize("written", ["{}", "localhost{}", "{}?mode=fast"])
def test_plugin_store_inside_a_workspace_is_rejected(
    shelf: Path, tmp_path: Path, written: str
) -> None:
    del shelf
    (tmp_path / "work" / ".midturn").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    inside = str(tmp_path / "work" / "kept")

    for path in (inside, inside.replace("kept", "%6bept"), f"{tmp_path}/other/../work/kept"):
        with pytest.raises(ConfigError, match="where tools may write"):
            open_store(f"shelf://{written.format(path)}")
    assert open_store(f"shelf://{inside}", trusted=True).ids_sync() == []


def test_doctor_shows_the_address_of_a_store_without_files(shelf: Path, tmp_path: Path) -> None:
    midturn = CommandLine(tmp_path / "user")
    address = "memory://ada:secret@team"

    found = midturn.run(
        "doctor", "--json", PYTHONPATH=str(shelf), MIDTURN_CFG_CONVERSATION__STORE=address
    ).json

    said = [
        (row["works"], row["said"]) for row in found if row["what"] in {"conversations", "inbox"}
    ]
    assert said == [(True, "at memory://ada@team")]


def test_command_uses_a_plugin_store(shelf: Path, tmp_path: Path) -> None:
    midturn = CommandLine(tmp_path / "user")
    address = f"shelf://{tmp_path}/kept"

    midturn.ok(
        "query", "-m", midturn.script(), "--store", address, "Keep this.", PYTHONPATH=str(shelf)
    )
    [row] = midturn.ok(
        "conversation",
        "ls",
        "--json",
        PYTHONPATH=str(shelf),
        MIDTURN_CFG_CONVERSATION__STORE=address,
    ).json
    inside = midturn.run("inbox", "--store", f"shelf://{midturn.root}/kept", PYTHONPATH=str(shelf))

    assert row["title"] == "Keep this."
    assert inside.status == 2
    assert "where tools may write" in inside.stderr


def test_store_check_rejects_plugin_stores(tmp_path: Path) -> None:
    checked = CommandLine(tmp_path).run("store", "check", "--store", "shelf://here")
    assert (
        checked.stderr == "midturn: Unsupported database `shelf://…`. Expected `postgresql://…` or"
        " `postgres://…`.\n"
    )


def test_workspace_configuration_cannot_choose_the_store(shelf: Path, tmp_path: Path) -> None:
    midturn = CommandLine(tmp_path / "user")
    midturn.workspace_file(f'conversation.store = "shelf://{tmp_path}/theirs"\n')

    midturn.run("query", "-m", midturn.script(), "Keep this.", PYTHONPATH=str(shelf))
    midturn.run("trust", "--yes", PYTHONPATH=str(shelf))
    midturn.run("query", "-m", midturn.script(), "And this.", PYTHONPATH=str(shelf))

    assert not (tmp_path / "theirs").exists()


def test_built_in_store_address_has_no_directory() -> None:
    assert folder_of("postgresql:///home") is None


# --------------------------------------------------------------------------------------------------
# Commands and agents


def test_help_lists_plugin_commands_without_loading_them(place: Path, tmp_path: Path) -> None:
    midturn = CommandLine(tmp_path / "user")
    install(
        place,
        "brought_word",
        {
            "commands": {"standup": "brought_word:command"},
            "agents": {"forge": "brought_word:FORGE"},
        },
        "1 / 0",
    )

    shown, hooks = (
        midturn.ok(*words, "--help", PYTHONPATH=str(place)).stdout for words in ([], ["hook"])
    )
    mistyped = midturn.run("standdup", PYTHONPATH=str(place))
    completed = midturn.run(
        PYTHONPATH=str(place),
        _MIDTURN_COMPLETE="bash_complete",
        COMP_WORDS="midturn st",
        COMP_CWORD="1",
    )

    assert "Plug-ins:\n  standup  From brought-word 1.0\n" in shown
    assert "Plug-ins:\n  forge  From brought-word 1.0\n" in hooks
    assert "Did you mean `standup`?" in mistyped.stderr
    assert completed.stdout == "plain,store\n"


def test_broken_plugin_agent_does_not_hide_the_others(place: Path, tmp_path: Path) -> None:
    midturn = CommandLine(tmp_path / "user")
    install(
        place,
        "brought_word",
        {"agents": {"forge": "brought_word:FORGE", "claude": "brought_word:CLAUDE"}},
        "1 / 0",
    )

    looked = midturn.run("hook", "status", PYTHONPATH=str(place))
    found = {
        row["what"]: row for row in midturn.run("doctor", "--json", PYTHONPATH=str(place)).json
    }
    unknown = midturn.run("hook", "install", "forget", PYTHONPATH=str(place))

    assert looked.status == 1
    assert (
        looked.stderr
        == "midturn: The agent `forge` of brought-word 1.0 cannot be loaded (ZeroDivisionError:"
        " division by zero). Update that package, or uninstall it.\n"
    )
    assert len(looked.stdout.splitlines()) == len(BUILT_IN)
    assert not found["agent forge"]["works"]
    assert (
        found["agent claude"]["said"]
        == "brought-word 1.0 cannot replace the agent `claude`, which is built in."
    )
    assert "'forge'" in unknown.stderr

"""Argument rules of calls: which rule decides, and attempts to evade a rule."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from midturn.cli.tools import examined
from midturn.errors import ConfigError
from midturn.question.json_value import Json, JsonObject
from midturn.routing.policy import ToolPolicy
from midturn.routing.rules import (
    Ruling,
    RunRule,
    RunRules,
    describe_rule,
    exact_rule,
    not_covered,
    read_run_rules,
    strictest,
)
from support.turns import DEPLOY


def rules_of_file(
    *rules: dict[str, Any], name: str = "config.toml", only_tightens: bool = False
) -> RunRules:
    """Return the rules of one file."""
    read = read_run_rules(rules)
    return RunRules(
        read,
        tuple(f"{name}:{number}" for number in range(1, len(read) + 1)),
        only_tightens=only_tightens,
    )


def decision_for(*origins: RunRules, run: Any = "ask", **arguments: Any) -> tuple[str, str]:
    """Return the decision about a call, and the rule that made it."""
    ruling = ToolPolicy(source=DEPLOY, run=run, rules=origins).ruling(arguments)
    return ruling.run, ruling.place


# Precedence of rules
# --------------------------------------------------------------------------------------------------


STATUS = {"when": {"cmd": "git status*"}, "run": "unattended"}
GIT = {"when": {"cmd": "git *"}, "run": "ask"}
NEVER = {"when": {"cmd": "git push*"}, "run": "skip", "reason": "Pushes are for people."}


def test_the_first_matching_rule_decides_otherwise_the_tools_setting() -> None:
    rules = rules_of_file(STATUS, NEVER, GIT)
    assert decision_for(rules, cmd="git status -s") == ("unattended", "config.toml:1")
    assert decision_for(rules, cmd="git push origin") == ("skip", "config.toml:2")
    assert decision_for(rules, cmd="git log") == ("ask", "config.toml:3")
    assert decision_for(rules, cmd="ls") == ("ask", "")
    assert decision_for(rules, run="skip", cmd="ls") == ("skip", "")
    assert decision_for(rules, run="skip", cmd="git status") == ("unattended", "config.toml:1")


def test_the_strictest_matching_rule_of_several_files_decides() -> None:
    mine, project = (
        rules_of_file(STATUS, name="mine"),
        rules_of_file({**STATUS, "run": "skip"}, name="project"),
    )
    assert decision_for(mine, project, cmd="git status") == ("skip", "project:1")
    assert decision_for(project, mine, cmd="git status") == ("skip", "project:1")
    assert decision_for(mine, rules_of_file(GIT, name="project"), cmd="git status") == (
        "ask",
        "project:1",
    )


def test_an_unapproved_file_can_only_tighten() -> None:
    theirs = rules_of_file(GIT, name="theirs", only_tightens=True)
    assert decision_for(theirs, run="skip", cmd="git log") == ("skip", "")
    assert decision_for(theirs, run="unattended", cmd="git log") == ("ask", "theirs:1")
    assert decision_for(rules_of_file(STATUS, name="mine"), theirs, cmd="git status") == (
        "ask",
        "theirs:1",
    )
    assert decision_for(rules_of_file({"run": "skip"}, name="mine"), theirs, cmd="git status") == (
        "skip",
        "mine:1",
    )


rules_at_random = st.lists(
    st.builds(
        RunRule,
        run=st.sampled_from(["unattended", "ask", "skip"]),
        when=st.dictionaries(
            st.sampled_from(["a", "b"]), st.sampled_from(["x*", "y", "*"]), max_size=2
        ),
        shell=st.booleans(),
    ),
    max_size=3,
).map(tuple)
arguments_at_random = st.dictionaries(
    st.sampled_from(["a", "b"]), st.sampled_from(["x", "xy", "y", "x;y", "x$(y)"]), max_size=2
)


@given(
    own=st.lists(rules_at_random, max_size=3),
    theirs=st.lists(rules_at_random, max_size=3),
    run=st.sampled_from(["unattended", "ask", "skip"]),
    arguments=arguments_at_random,
)
def test_unapproved_rules_never_loosen_and_added_rules_are_kept(
    own: list[tuple[RunRule, ...]],
    theirs: list[tuple[RunRule, ...]],
    run: Any,
    arguments: dict[str, Any],
) -> None:
    order = ["unattended", "ask", "skip"]

    def of(rules: tuple[RunRule, ...], *, only_tightens: bool) -> RunRules:
        return RunRules(rules, tuple(map(str, range(len(rules)))), only_tightens=only_tightens)

    trusted = [of(rules, only_tightens=False) for rules in own]
    untrusted = [of(rules, only_tightens=True) for rules in theirs]
    before = strictest(Ruling(run), trusted, arguments).run
    after = strictest(Ruling(run), [*trusted, *untrusted], arguments).run
    said = [ruling.run for one in untrusted if (ruling := one.ruling(arguments))]
    assert order.index(after) == max(map(order.index, [before, *said]))
    shown = [one for one in examined([*trusted, *untrusted], arguments) if one.is_first]
    firsts = [one.ruling(arguments) for one in [*trusted, *untrusted]]
    assert [one.rule.run for one in shown] == [ruling.run for ruling in firsts if ruling]


def test_a_rule_that_needs_shell_true_is_reported() -> None:
    (one,) = examined([rules_of_file(STATUS)], {"cmd": "git status; ls"})
    assert (one.holds, one.needs_shell) == (False, True)
    (other,) = examined([rules_of_file(STATUS)], {"cmd": "ls"})
    assert (other.holds, other.needs_shell) == (False, False)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"when": {}}, "rule 1: a rule has `run`"),
        ({"run": "always"}, "rule 1: Invalid enum value 'always'"),
        ({"run": "ask", "wen": {}}, "unknown field `wen`"),
        ({"run": "skip", "ask": ["ops"]}, '`ask` asks people, but `run = "skip"` asks no one'),
        (
            {"ask": ["ops"], "approvals": 0},
            "rule 1: `approvals`: 0 is not a valid number of approvals",
        ),
        ({"ask": ["o ps"]}, "rule 1: `ask.0`: .* is not a valid name of a person or group"),
        ({"only": True}, "rule 1: `only`: `only` is set, but `ask` is empty, so no one may answer"),
        (
            {"ask": ["ops"], "escalate": [{"after": "2h", "to": list[str]()}]},
            "rule 1: `escalate.0.to`: no one is named",
        ),
        (
            {"ask": ["ops"], "remind_after": "soon"},
            "rule 1: `remind_after`: .* is not a valid time to wait",
        ),
        (
            {"run": "ask", "when": {"n": {"above": 1}}},
            r"rule 1.when\['n'\]: .*unknown field `above`",
        ),
        ({"run": "ask", "when": {"cmd": {"matches": "(?=a)"}}}, "linear time"),
        ("ask", "rule 1: a rule must be a table"),
    ],
)
def test_an_invalid_rule_is_reported(rule: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_run_rules([rule])


def test_allowing_patterns_match_the_whole_text_and_stopping_patterns_any_part() -> None:
    pattern = {"cmd": {"matches": "git (status|log)"}}
    assert (
        decision_for(rules_of_file({"when": pattern, "run": "unattended"}), cmd="git log")[0]
        == "unattended"
    )
    assert (
        decision_for(rules_of_file({"when": pattern, "run": "unattended"}), cmd="sudo git log")[0]
        == "ask"
    )
    assert (
        decision_for(rules_of_file({"when": pattern, "run": "skip"}), cmd="sudo git log; ls")[0]
        == "skip"
    )


def test_a_huge_text_is_matched_at_once() -> None:
    """Matching takes linear time. A text too long to match is not allowed to run."""
    rules = rules_of_file(
        {"when": {"cmd": {"matches": "(a|aa|a*)*b"}}, "run": "unattended"},
        {"when": {"cmd": "*a*a*a*a*b"}, "run": "unattended"},
    )
    assert decision_for(rules, cmd="a" * 100_000)[0] == "ask"


@pytest.mark.parametrize("run", ["ask", "skip"])
@pytest.mark.parametrize(
    ("pattern", "padding"), [("rm -rf", "字" * 500_000), (r"(?i)\w{1,20} rm -rf", "x" * 100_000)]
)
def test_a_long_text_cannot_evade_a_stopping_pattern(run: str, pattern: str, padding: str) -> None:
    """Stopping rules apply to a text that is too long to match. Allowing rules do not."""
    text = f"{padding} rm -rf /"
    stopping = {"when": {"cmd": {"matches": pattern}}, "run": run}
    assert decision_for(rules_of_file(stopping, {"run": "unattended"}), cmd=text) == (
        run,
        "config.toml:1",
    )
    letting = {"when": {"cmd": {"matches": f"({pattern}|.)*"}}, "run": "unattended", "shell": True}
    assert decision_for(rules_of_file(letting), cmd=text) == ("ask", "")


# Attempts to evade an allowing rule
# --------------------------------------------------------------------------------------------------


LETTING: list[tuple[Any, str]] = [
    ("git *", "git status"),
    ("git status*", "git status"),
    ("git status *", "git status -s"),
    ("*status*", "git status"),
    ("g?t status*", "git status"),
    ({"matches": "git .*"}, "git status"),
    ({"matches": "(?s)git .*"}, "git log"),
    ("npm run *", "npm run test"),
    ("ls *", "ls -la"),
    ("* --help", "git --help"),
    ({"matches": "(git|hg) [a-z]+.*"}, "hg log"),
]
TRICKS = [
    "{}; rm -r .", "{};rm -r .", "{} ;rm", "; {}", "{} & rm", "{}&rm", "{} && rm", "{} || rm", "{} | sh", "{}|sh",
    "{} $(rm)", "{} `rm`", "{} ${{IFS}}rm", "{} $HOME", "{} > ~/.bashrc", "{} >> x", "{} < /etc/passwd", "{} <(rm)", "{} 2>&1",
    "{}\nrm", "{}\r\nrm", "{}\rrm", "{}\x0brm", "{}\x0crm", "{}\u2028rm", "{}\u2029rm", "{}\x85rm", "{}\x00rm", "{}\trm",
    "{} 'a b'", '{} "a b"', "{} \\; rm", "{} \\\nrm", "{} {{a,b}}", "{} *", "{} ?", "{} [a]", "{} ~root", "{} !!", "{} !rm", "{} #x",
    "{} (rm)", "({})", "{{ {}; }}", "{}  rm", " {}", "{} ", "{}\u00a0rm", "{} \uff1b rm", "{} \u037e rm", "{} \u2024\u2024/x",
    "{} ..", "{} ../x", "{} x/../../y", "{} /..", "{} --output=../x", "{} --output=..", "{} HEAD:../x", "{} a:..", "{} -C..", "{} -C../..",
    "{} x,../y", "{} @..", "{} x/..", "{} ^a^b", "{} $'\\x3b'", "{} \ufeffrm", "{} \u202erm", "{} \u200brm", "{} <<X",
    "{};;rm", "{}|&rm", "{} &>x", "{} &>>x", "{} >|x", "{} <>x", "{} >&2", "{} <<<x", "{} <&-", "{} $((1))", "{} ${{x}}", "{} $[1]",
    "{} $@", "{} $*", "{} $?", "{} $$", "{} $!", "{} $0", "{} `", "{} $'a'", '{} $"a"', "{} >(rm)", "{} =(rm)", "{} ~", "{} ~/x", "{} ~+",
    "{}\x1b[2Krm", "{}\x08rm", "{}\x7frm", "{}\u3000rm", "{}\u180erm", "{}\u2060rm", "{}\u00adrm", "{}\u034frm", "{}\u0301rm",
    "{} \uff5c rm", "{} \uff06 rm", "{} \uff04(rm)", "{} \u2215etc", "{} \u2019rm", "{} \u2018rm", "{}\u061brm", "{} \u2066rm",
    "{} x/./../y", "{} /../etc", "{} x:../y", "{} +../x", "{} @../x", "{} -o../x", "{} -o..", "{} a=..", "{} a:.. b", "{} ../..",
    "\n{}", "\t{}", "{}\n", "{}\r", "rm\n{}", "rm;{}", "rm|{}", "rm&&{}", "'{}'", '"{}"', "{}'", '{}"', "\\{}", "{}\\", "! {}",
    "(({}))", "[[ {} ]]", "{{ {}", "#{}", "{} #", "{} a\\ b", "{} {{1..9}}", "{} x{{a,b}}", "{} [!a]", "{} @(a)", "{} ^", "{} a!b",
]  # fmt: skip
BEFORE = ["sudo {}", "env A=b {}", "A=b {}", "exec {}", "eval {}", "command {}", "time {}", "nohup {}", "/bin/{}", "./{}", "x{}", "-{}",
          "bash -c {}", "xargs {}", "if {}"]  # fmt: skip


def hostile() -> Iterator[tuple[Any, str]]:
    """Yield rules that allow calls, each with a text that does more than the rule allows."""
    for pattern, text in LETTING:
        for trick in TRICKS:
            yield pattern, trick.format(text)
        for trick in BEFORE if not str(pattern).startswith("*") else ():
            yield pattern, trick.format(text)


def test_none_of_a_thousand_texts_evades_a_rule() -> None:
    """The texts contain shell syntax, Unicode look-alikes, globs and `..`."""
    tried = list(hostile())
    assert len({text for _, text in tried}) >= 1_000
    through = [
        (pattern, text)
        for pattern, text in tried
        if decision_for(rules_of_file({"when": {"cmd": pattern}, "run": "unattended"}), cmd=text)[1]
    ]
    assert through == []
    assert all(
        decision_for(rules_of_file({"when": {"cmd": pattern}, "run": "unattended"}), cmd=text)[1]
        for pattern, text in LETTING
    )


def test_variable_assignments_before_the_program_are_not_its_words() -> None:
    for cmd in (
        "LD_PRELOAD=x git status",
        "A=b C=d git status",
        "A= git status",
        "A+=b git status",
    ):
        assert decision_for(
            rules_of_file({"when": {"cmd": "*git status"}, "run": "unattended"}), cmd=cmd
        ) == ("ask", "")


def test_paths_that_only_look_like_parent_paths_are_allowed() -> None:
    for cmd in (
        "git diff main..",
        "git log a..b",
        "git log ..b",
        "git log --since=1.day",
        "git add a...b",
        "git show HEAD:x/y..z",
    ):
        assert (
            decision_for(rules_of_file({"when": {"cmd": "git *"}, "run": "unattended"}), cmd=cmd)[0]
            == "unattended"
        ), cmd


def test_a_rule_with_shell_true_accepts_any_text() -> None:
    rules = rules_of_file({"when": {"cmd": "git *"}, "run": "unattended", "shell": True})
    assert decision_for(rules, cmd="git log | head") == ("unattended", "config.toml:1")


def test_asking_and_skipping_rules_accept_any_text() -> None:
    for run in ("ask", "skip"):
        rules = rules_of_file({"when": {"cmd": "*rm -r*"}, "run": run}, {"run": "unattended"})
        assert decision_for(rules, cmd="git status; rm -r .") == (run, "config.toml:1")


LETTERS = "ab9 _-./:=@%+,~é字" + ";|&$`<>\n\t\\'\"(){}[]*?!#^\r"


@given(st.text(LETTERS, max_size=12))
def test_an_allowed_text_equals_its_displayed_words(rest: str) -> None:
    """Parsing the text like a shell gives the words that are displayed."""
    text = f"git {rest}"
    if decision_for(rules_of_file({"when": {"cmd": "git *"}, "run": "unattended"}), cmd=text)[1]:
        assert not set(text) & set(";|&$`<>\n\t\\'\"(){}[]*?!#^\r~")
        assert all(word and word != ".." for word in text.split(" "))


def test_a_real_shell_runs_only_the_words_of_an_allowed_text(tmp_path: Path) -> None:
    """The only program available prints its arguments."""
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
    git.chmod(0o755)
    texts = [
        f"git {rest}"
        for rest in (
            "status",
            "log -1 --format=%H",
            "show HEAD:a/b.txt",
            "diff a@b c,d x=y +z",
            "add é/字.txt",
            "-c a.b=c d",
        )
    ]
    assert all(
        decision_for(rules_of_file({"when": {"cmd": "git *"}, "run": "unattended"}), cmd=text)[1]
        for text in texts
    )
    for text in texts:
        said = subprocess.run(
            ["/bin/sh", "-c", text],
            env={"PATH": str(git.parent) + os.pathsep + "/bin"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stdout.splitlines() == [str(git), *text.split(" ")[1:]]


@pytest.mark.parametrize(
    ("arguments", "when"),
    [
        ({"cmd": "git status"}, {"cmd": "git status"}),
        (
            {"cmd": "ls *", "depth": 2, "all": True},
            {"cmd": {"one_of": ["ls *"]}, "depth": 2, "all": True},
        ),
        ({"to": ["a", {"b": 1}], "/x": "y"}, {"to": {"one_of": [["a", {"b": 1}]]}, "/~1x": "y"}),
    ],
)
def test_an_exact_rule_matches_only_its_values(arguments: JsonObject, when: JsonObject) -> None:
    rule = exact_rule(arguments)
    assert rule == {"when": when, "exact": True, "run": "unattended"}
    (read,) = read_run_rules([rule])
    assert read.holds(arguments)
    assert not read.holds({**arguments, "one more": False})
    for name in arguments:
        assert not read.holds({**arguments, name: "something else"})
        assert not read.holds({key: value for key, value in arguments.items() if key != name})


@pytest.mark.parametrize(
    "arguments", [{"text": "x" * 3000}, {"text": None}, {"to": {"deep": [None]}}, "no object"]
)
def test_only_rules_that_can_be_written_and_read_are_offered(arguments: Json) -> None:
    assert exact_rule(arguments) is None


def test_an_exact_rule_for_a_call_without_arguments_matches_nothing_else() -> None:
    (rule,) = read_run_rules([exact_rule({})])
    assert rule.holds({})
    assert not rule.holds({"force": True})


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("1", 1),
        (1, "1"),
        (True, "true"),
        ("true", True),
        (1, True),
        (0, False),
        ("", False),
        (1.5, "1.5"),
        ([], {}),
        (["1"], [1]),
    ],
)
def test_an_exact_rule_compares_values_with_their_types(written: Json, other: Json) -> None:
    (rule,) = read_run_rules([exact_rule({"n": written})])
    assert rule.holds({"n": written})
    assert not rule.holds({"n": other})


def test_one_and_one_point_zero_are_equal() -> None:
    (rule,) = read_run_rules([exact_rule({"n": 1})])
    assert rule.holds({"n": 1.0})


def test_a_handwritten_rule_keeps_its_meaning() -> None:
    (rule,) = read_run_rules([{"when": {"n": "1"}, "run": "unattended"}])
    assert rule.holds({"n": 1})
    assert rule.holds({"n": "1", "more": True})


@pytest.mark.parametrize(
    ("when", "arguments", "holds"),
    [
        ({"/at/x": 1}, {"at": {"x": 1}}, True),
        ({"/at/x": 1}, {"at": {"x": 1, "y": 2}}, False),
        ({"/at/0": 1, "/at/1": 2}, {"at": [1, 2]}, True),
        ({"/at/0": 1}, {"at": [1, 2]}, False),
        ({"at": {"one_of": [{"x": 1}]}}, {"at": {"x": 1}}, True),
        ({"a": "x*"}, {"a": 1}, False),
        ({"a": {"matches": "[0-9]"}}, {"a": 1}, False),
    ],
)
def test_an_exact_rule_needs_a_condition_for_every_value(
    when: JsonObject,
    arguments: JsonObject,
    holds: bool,  # noqa: FBT001
) -> None:
    (rule,) = read_run_rules([{"when": when, "exact": True, "run": "unattended"}])
    assert rule.holds(arguments) is holds


def test_a_rule_for_a_changed_tool_definition_does_not_match_and_is_reported() -> None:
    (rule,) = read_run_rules([exact_rule({"to": "a"}, "old")])
    rules = (RunRules((rule,), ("mine:1",)),)
    assert strictest(Ruling("ask"), rules, {"to": "a"}, "old").run == "unattended"
    assert strictest(Ruling("ask"), rules, {"to": "a"}, "new") == Ruling("ask", changed="mine:1")
    assert strictest(Ruling("ask"), rules, {"to": "a"}) == Ruling("ask", changed="mine:1")
    assert strictest(Ruling("ask"), rules, {"to": "b"}, "new") == Ruling("ask")


def test_a_rule_is_described_with_an_example_it_does_not_match() -> None:
    (rule,) = read_run_rules([exact_rule({"to": "staging", "n": 2})])
    assert describe_rule(rule, "deploy") == 'deploy with to = "staging", n = 2, and nothing else'
    assert (
        not_covered(rule, "deploy", {"to": "staging", "n": 2})
        == 'deploy {"to": "staging", "n": 2, "force": true}'
    )
    (empty,) = read_run_rules([exact_rule({})])
    assert describe_rule(empty, "deploy") == "deploy without arguments"
    assert not_covered(empty, "deploy", {}) == 'deploy {"force": true}'
    (wide,) = read_run_rules([{"when": {}, "run": "unattended"}])
    assert describe_rule(wide, "deploy") == "every call of deploy"
    assert not_covered(wide, "deploy", {"to": "a"}) == ""
    (glob,) = read_run_rules([{"when": {"to": "stag*"}, "run": "unattended"}])
    assert not_covered(glob, "deploy", {"to": "staging"}) == 'deploy {"to": "other"}'
    assert (
        describe_rule(glob, "deploy") == 'deploy with to like "stag*", whatever its other arguments'
    )


@pytest.mark.parametrize(
    "other", [{"ask": ["ana"], "only": True, "approvals": 1}, {"run": "ask"}, {"run": "skip"}]
)
def test_a_standing_permission_does_not_override_an_asking_rule(other: JsonObject) -> None:
    written = exact_rule({"to": "a"})
    for order in ([written, other], [other, written]):
        rules = RunRules(read_run_rules(order), ("one:1", "one:2"))
        said = strictest(Ruling("ask"), (rules,), {"to": "a"})
        assert (said.run, said.people is not None) == (other.get("run", "ask"), "ask" in other)
    by_hand = RunRules(
        read_run_rules([{"when": {"to": "a"}, "run": "unattended"}, other]), ("one:1", "one:2")
    )
    assert strictest(Ruling("ask"), (by_hand,), {"to": "a"}).run == "unattended", (
        "the first rule that holds decides"
    )


@pytest.mark.parametrize(
    "value",
    ["production ", " production", "production\u00a0", "production\u200b", "\tproduction\n"],
)
@pytest.mark.parametrize(
    "condition", ["production", "prod*", {"one_of": ["production"]}, {"matches": "^production$"}]
)
def test_surrounding_whitespace_does_not_evade_a_rule(value: str, condition: object) -> None:
    for table in ({"run": "skip"}, {"run": "ask"}, {"ask": ["ops"], "only": True}):
        (rule,) = read_run_rules([{"when": {"env": condition}, **table}])
        assert rule.holds({"env": value})
    (rule,) = read_run_rules([{"when": {"env": "production"}, "run": "unattended"}])
    assert not rule.holds({"env": value})

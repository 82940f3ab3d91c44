"""Rules about the arguments of a call: which decides, and what never gets past a rule that lets calls run."""

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
from midturn.routing.rules import Ruling, RunRule, RunRules, exact_rule, in_words, not_covered, read_run_rules, strictest
from support.turns import DEPLOY


def origin(*rules: dict[str, Any], name: str = "config.toml", only_tightens: bool = False) -> RunRules:
    """Return the rules of one file."""
    read = read_run_rules(rules)
    return RunRules(read, tuple(f"{name}:{number}" for number in range(1, len(read) + 1)), only_tightens=only_tightens)


def ruled(*origins: RunRules, run: Any = "ask", **arguments: Any) -> tuple[str, str]:
    """Return what is said about a call, and the rule that says so."""
    ruling = ToolPolicy(source=DEPLOY, run=run, rules=origins).ruling(arguments)
    return ruling.run, ruling.place


# Which rule decides -----------------------------------------------------------------------------------------------------


STATUS = {"when": {"cmd": "git status*"}, "run": "unattended"}
GIT = {"when": {"cmd": "git *"}, "run": "ask"}
NEVER = {"when": {"cmd": "git push*"}, "run": "skip", "reason": "Pushes are for people."}


def test_the_first_rule_that_holds_decides_and_without_one_the_tools_own_word() -> None:
    rules = origin(STATUS, NEVER, GIT)
    assert ruled(rules, cmd="git status -s") == ("unattended", "config.toml:1")
    assert ruled(rules, cmd="git push origin") == ("skip", "config.toml:2")
    assert ruled(rules, cmd="git log") == ("ask", "config.toml:3")
    assert ruled(rules, cmd="ls") == ("ask", "")
    assert ruled(rules, run="skip", cmd="ls") == ("skip", "")
    assert ruled(rules, run="skip", cmd="git status") == ("unattended", "config.toml:1")


def test_of_several_files_the_strictest_first_rule_decides() -> None:
    mine, project = origin(STATUS, name="mine"), origin({**STATUS, "run": "skip"}, name="project")
    assert ruled(mine, project, cmd="git status") == ("skip", "project:1")
    assert ruled(project, mine, cmd="git status") == ("skip", "project:1")
    assert ruled(mine, origin(GIT, name="project"), cmd="git status") == ("ask", "project:1")


def test_a_file_that_is_not_approved_only_tightens() -> None:
    theirs = origin(GIT, name="theirs", only_tightens=True)
    assert ruled(theirs, run="skip", cmd="git log") == ("skip", "")
    assert ruled(theirs, run="unattended", cmd="git log") == ("ask", "theirs:1")
    assert ruled(origin(STATUS, name="mine"), theirs, cmd="git status") == ("ask", "theirs:1")
    assert ruled(origin({"run": "skip"}, name="mine"), theirs, cmd="git status") == ("skip", "mine:1")


rules_at_random = st.lists(
    st.builds(
        RunRule,
        run=st.sampled_from(["unattended", "ask", "skip"]),
        when=st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x*", "y", "*"]), max_size=2),
        shell=st.booleans(),
    ),
    max_size=3,
).map(tuple)
arguments_at_random = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", "xy", "y", "x;y", "x$(y)"]), max_size=2)


@given(
    own=st.lists(rules_at_random, max_size=3),
    theirs=st.lists(rules_at_random, max_size=3),
    run=st.sampled_from(["unattended", "ask", "skip"]),
    arguments=arguments_at_random,
)
def test_what_is_not_approved_never_loosens_and_what_is_added_is_never_forgotten(
    own: list[tuple[RunRule, ...]], theirs: list[tuple[RunRule, ...]], run: Any, arguments: dict[str, Any]
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


def test_a_rule_that_would_hold_if_it_said_shell_is_told_apart() -> None:
    (one,) = examined([origin(STATUS)], {"cmd": "git status; ls"})
    assert (one.holds, one.needs_shell) == (False, True)
    (other,) = examined([origin(STATUS)], {"cmd": "ls"})
    assert (other.holds, other.needs_shell) == (False, False)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"when": {}}, "rule 1: a rule has `run`"),
        ({"run": "always"}, "rule 1: Invalid enum value 'always'"),
        ({"run": "ask", "wen": {}}, "unknown field `wen`"),
        ({"run": "skip", "ask": ["ops"]}, '`ask` has people asked, and `run = "skip"` asks no one'),
        ({"ask": ["ops"], "approvals": 0}, "rule 1: `approvals`: 0 is no number of approvals"),
        ({"ask": ["o ps"]}, "rule 1: `ask.0`: .* is no name of a person or group"),
        ({"only": True}, "rule 1: `only`: `only` names no one who may answer"),
        ({"ask": ["ops"], "escalate": [{"after": "2h", "to": list[str]()}]}, "rule 1: `escalate.0.to`: there is no one to escalate to"),
        ({"ask": ["ops"], "remind_after": "soon"}, "rule 1: `remind_after`: .* is no time to wait"),
        ({"run": "ask", "when": {"n": {"above": 1}}}, r"rule 1.when\['n'\]: .*unknown field `above`"),
        ({"run": "ask", "when": {"cmd": {"matches": "(?=a)"}}}, "linear time"),
        ("ask", "rule 1: a rule is a table"),
    ],
)
def test_a_wrong_rule_says_what_is_wrong(rule: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_run_rules([rule])


def test_a_pattern_has_to_fit_the_whole_of_what_it_lets_run_and_any_part_of_what_it_stops() -> None:
    pattern = {"cmd": {"matches": "git (status|log)"}}
    assert ruled(origin({"when": pattern, "run": "unattended"}), cmd="git log")[0] == "unattended"
    assert ruled(origin({"when": pattern, "run": "unattended"}), cmd="sudo git log")[0] == "ask"
    assert ruled(origin({"when": pattern, "run": "skip"}), cmd="sudo git log; ls")[0] == "skip"


def test_an_enormous_text_is_matched_at_once() -> None:
    """In linear time, or not at all: what is too much to look at lets nothing run."""
    rules = origin({"when": {"cmd": {"matches": "(a|aa|a*)*b"}}, "run": "unattended"}, {"when": {"cmd": "*a*a*a*a*b"}, "run": "unattended"})
    assert ruled(rules, cmd="a" * 100_000)[0] == "ask"


@pytest.mark.parametrize("run", ["ask", "skip"])
@pytest.mark.parametrize(("pattern", "padding"), [("rm -rf", "字" * 500_000), (r"(?i)\w{1,20} rm -rf", "x" * 100_000)])
def test_no_length_of_a_text_takes_it_past_a_pattern_that_stops_it(run: str, pattern: str, padding: str) -> None:
    """What is too long to look at is taken for what is stopped, and never for what may run."""
    text = f"{padding} rm -rf /"
    stopping = {"when": {"cmd": {"matches": pattern}}, "run": run}
    assert ruled(origin(stopping, {"run": "unattended"}), cmd=text) == (run, "config.toml:1")
    letting = {"when": {"cmd": {"matches": f"({pattern}|.)*"}}, "run": "unattended", "shell": True}
    assert ruled(origin(letting), cmd=text) == ("ask", "")


# What does not get past a rule that lets calls run ------------------------------------------------------------------------


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
    """Yield rules that let calls run, each with a text that is more than they speak of."""
    for pattern, text in LETTING:
        for trick in TRICKS:
            yield pattern, trick.format(text)
        for trick in BEFORE if not str(pattern).startswith("*") else ():
            yield pattern, trick.format(text)


def test_none_of_a_thousand_texts_gets_past_a_rule() -> None:
    """Quotes, newlines, substitution, redirection, look-alikes of Unicode, globs, paths that lead up."""
    tried = list(hostile())
    assert len({text for _, text in tried}) >= 1_000
    through = [(pattern, text) for pattern, text in tried if ruled(origin({"when": {"cmd": pattern}, "run": "unattended"}), cmd=text)[1]]
    assert through == []
    assert all(ruled(origin({"when": {"cmd": pattern}, "run": "unattended"}), cmd=text)[1] for pattern, text in LETTING)


def test_variables_before_the_program_are_no_words_of_it() -> None:
    for cmd in ("LD_PRELOAD=x git status", "A=b C=d git status", "A= git status", "A+=b git status"):
        assert ruled(origin({"when": {"cmd": "*git status"}, "run": "unattended"}), cmd=cmd) == ("ask", "")


def test_what_only_looks_like_a_path_that_leads_up_gets_through() -> None:
    for cmd in ("git diff main..", "git log a..b", "git log ..b", "git log --since=1.day", "git add a...b", "git show HEAD:x/y..z"):
        assert ruled(origin({"when": {"cmd": "git *"}, "run": "unattended"}), cmd=cmd)[0] == "unattended", cmd


def test_a_rule_that_says_shell_takes_any_text() -> None:
    rules = origin({"when": {"cmd": "git *"}, "run": "unattended", "shell": True})
    assert ruled(rules, cmd="git log | head") == ("unattended", "config.toml:1")


def test_a_rule_that_asks_or_skips_takes_any_text() -> None:
    for run in ("ask", "skip"):
        rules = origin({"when": {"cmd": "*rm -r*"}, "run": run}, {"run": "unattended"})
        assert ruled(rules, cmd="git status; rm -r .") == (run, "config.toml:1")


LETTERS = "ab9 _-./:=@%+,~é字" + ";|&$`<>\n\t\\'\"(){}[]*?!#^\r"


@given(st.text(LETTERS, max_size=12))
def test_a_text_that_gets_through_is_the_words_that_it_shows(rest: str) -> None:
    """Read as a shell reads it, and as it stands, it is the same."""
    text = f"git {rest}"
    if ruled(origin({"when": {"cmd": "git *"}, "run": "unattended"}), cmd=text)[1]:
        assert not set(text) & set(";|&$`<>\n\t\\'\"(){}[]*?!#^\r~")
        assert all(word and word != ".." for word in text.split(" "))


def test_a_real_shell_runs_nothing_but_the_words_of_what_gets_through(tmp_path: Path) -> None:
    """The only program that there is says what it was given."""
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
    git.chmod(0o755)
    texts = [
        f"git {rest}" for rest in ("status", "log -1 --format=%H", "show HEAD:a/b.txt", "diff a@b c,d x=y +z", "add é/字.txt", "-c a.b=c d")
    ]
    assert all(ruled(origin({"when": {"cmd": "git *"}, "run": "unattended"}), cmd=text)[1] for text in texts)
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
        ({"cmd": "ls *", "depth": 2, "all": True}, {"cmd": {"one_of": ["ls *"]}, "depth": 2, "all": True}),
        ({"to": ["a", {"b": 1}], "/x": "y"}, {"to": {"one_of": [["a", {"b": 1}]]}, "/~1x": "y"}),
    ],
)
def test_an_exact_rule_holds_for_just_these_values(arguments: JsonObject, when: JsonObject) -> None:
    rule = exact_rule(arguments)
    assert rule == {"when": when, "exact": True, "run": "unattended"}
    (read,) = read_run_rules([rule])
    assert read.holds(arguments)
    assert not read.holds({**arguments, "one more": False})
    for name in arguments:
        assert not read.holds({**arguments, name: "something else"})
        assert not read.holds({key: value for key, value in arguments.items() if key != name})


@pytest.mark.parametrize("arguments", [{"text": "x" * 3000}, {"text": None}, {"to": {"deep": [None]}}, "no object"])
def test_no_rule_is_offered_that_could_not_be_written_or_read(arguments: Json) -> None:
    assert exact_rule(arguments) is None


def test_an_exact_rule_for_a_call_without_arguments_covers_nothing_else() -> None:
    (rule,) = read_run_rules([exact_rule({})])
    assert rule.holds({})
    assert not rule.holds({"force": True})


@pytest.mark.parametrize(
    ("written", "other"),
    [("1", 1), (1, "1"), (True, "true"), ("true", True), (1, True), (0, False), ("", False), (1.5, "1.5"), ([], {}), (["1"], [1])],
)
def test_an_exact_rule_compares_values_with_their_types(written: Json, other: Json) -> None:
    (rule,) = read_run_rules([exact_rule({"n": written})])
    assert rule.holds({"n": written})
    assert not rule.holds({"n": other})


def test_one_and_one_point_zero_are_one_number_in_json() -> None:
    (rule,) = read_run_rules([exact_rule({"n": 1})])
    assert rule.holds({"n": 1.0})


def test_a_rule_written_by_hand_keeps_its_meaning() -> None:
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
def test_an_exact_rule_needs_a_condition_for_every_value(when: JsonObject, arguments: JsonObject, holds: bool) -> None:  # noqa: FBT001
    (rule,) = read_run_rules([{"when": when, "exact": True, "run": "unattended"}])
    assert rule.holds(arguments) is holds


def test_a_rule_for_another_definition_of_its_tool_does_not_hold_and_is_named() -> None:
    (rule,) = read_run_rules([exact_rule({"to": "a"}, "old")])
    rules = (RunRules((rule,), ("mine:1",)),)
    assert strictest(Ruling("ask"), rules, {"to": "a"}, "old").run == "unattended"
    assert strictest(Ruling("ask"), rules, {"to": "a"}, "new") == Ruling("ask", changed="mine:1")
    assert strictest(Ruling("ask"), rules, {"to": "a"}) == Ruling("ask", changed="mine:1")
    assert strictest(Ruling("ask"), rules, {"to": "b"}, "new") == Ruling("ask")


def test_a_rule_is_described_with_a_call_that_it_does_not_cover() -> None:
    (rule,) = read_run_rules([exact_rule({"to": "staging", "n": 2})])
    assert in_words(rule, "deploy") == 'deploy with to = "staging", n = 2, and nothing else'
    assert not_covered(rule, "deploy", {"to": "staging", "n": 2}) == 'deploy {"to": "staging", "n": 2, "force": true}'
    (empty,) = read_run_rules([exact_rule({})])
    assert in_words(empty, "deploy") == "deploy without arguments"
    assert not_covered(empty, "deploy", {}) == 'deploy {"force": true}'
    (wide,) = read_run_rules([{"when": {}, "run": "unattended"}])
    assert in_words(wide, "deploy") == "every call of deploy"
    assert not_covered(wide, "deploy", {"to": "a"}) == ""
    (glob,) = read_run_rules([{"when": {"to": "stag*"}, "run": "unattended"}])
    assert not_covered(glob, "deploy", {"to": "staging"}) == 'deploy {"to": "other"}'
    assert in_words(glob, "deploy") == 'deploy with to like "stag*", whatever its other arguments'


@pytest.mark.parametrize("other", [{"ask": ["ana"], "only": True, "approvals": 1}, {"run": "ask"}, {"run": "skip"}])
def test_a_permission_written_at_a_prompt_takes_back_nothing_that_another_rule_asks_for(other: JsonObject) -> None:
    written = exact_rule({"to": "a"})
    for order in ([written, other], [other, written]):
        rules = RunRules(read_run_rules(order), ("one:1", "one:2"))
        said = strictest(Ruling("ask"), (rules,), {"to": "a"})
        assert (said.run, said.people is not None) == (other.get("run", "ask"), "ask" in other)
    by_hand = RunRules(read_run_rules([{"when": {"to": "a"}, "run": "unattended"}, other]), ("one:1", "one:2"))
    assert strictest(Ruling("ask"), (by_hand,), {"to": "a"}).run == "unattended", "the first rule that holds decides"


@pytest.mark.parametrize("value", ["production ", " production", "production\u00a0", "production\u200b", "\tproduction\n"])
@pytest.mark.parametrize("condition", ["production", "prod*", {"one_of": ["production"]}, {"matches": "^production$"}])
def test_white_space_around_a_value_does_not_evade_a_rule_that_asks_or_refuses(value: str, condition: object) -> None:
    for table in ({"run": "skip"}, {"run": "ask"}, {"ask": ["ops"], "only": True}):
        (rule,) = read_run_rules([{"when": {"env": condition}, **table}])
        assert rule.holds({"env": value})
    (rule,) = read_run_rules([{"when": {"env": "production"}, "run": "unattended"}])
    assert not rule.holds({"env": value})

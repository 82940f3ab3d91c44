"""Each claim of the README about networks, files and responders has a test that proves it."""

from __future__ import annotations

import re

import pytest

from support.documents import ROOT

CLAIMS = [
    ("checks the answer", "tests/agent/test_misuse.py", ""),
    ("records who asked,\nwhat, who answered and why", "tests/cli/test_who_answered.py", ""),
    (
        "no model and no default may answer",
        "tests/routing/test_routing_table.py",
        "test_no_model_and_no_default_answers_what_is_for_humans",
    ),
    (
        "or an answer that your own configuration or program fixes",
        "tests/agent/test_policies.py",
        "test_routes_take_what_the_configuration_takes_for_a_question",
    ),
    (
        "the turn is suspended, and the question is stored in `conversations`. The process can end.",
        "tests/agent/test_agent.py",
        "test_without_a_prompter_the_turn_waits_and_any_agent_on_the_store_goes_on",
    ),
    ("Any process can answer, today or next week.", "tests/agent/test_server_example.py", ""),
    (
        "`midturn worker ship:agent` continues the turn.",
        "tests/cli/test_worker_dependencies.py",
        "test_a_worker_process_gives_each_turn_the_dependencies_of_its_author",
    ),
    (
        "agents lose a question when their process dies",
        "tests/stories/test_killed_turns.py",
        "test_a_turn_survives_kill_nine_at_any_moment",
    ),
    ("It needs git,", "tests/cli/test_demo_command.py", "test_the_demo_says_that_it_needs_git"),
    (
        "no API key and no network. It works in a temporary directory and does\nnot change or create any other files.",
        "tests/cli/test_demo_command.py",
        "test_the_demo_needs_no_network_and_creates_files_in_its_temporary_directory_only",
    ),
    ("Where nobody can be asked, [a policy]", "tests/stories/test_detached_policies.py", ""),
    ("The first answer wins:", "tests/runtime/test_driver.py", "test_an_answer_from_elsewhere_closes_the_prompt_and_says_who_answered"),
    (
        "so that nobody is asked twice",
        "tests/agent/test_open_turns.py",
        "test_cancelling_the_task_leaves_the_turn_open_and_nobody_is_asked_twice",
    ),
    (
        "A file that came with a repository runs nothing before you have approved it.",
        "tests/hostile/test_hostile_repository.py",
        "test_a_file_that_came_along_runs_nothing",
    ),
    (
        "A change to it, or to a script that it runs, needs a new approval.",
        "tests/cli/test_trust_command.py",
        "test_a_change_needs_a_new_approval",
    ),
    (
        "person, inbox, second model, configuration: by a table",
        "tests/routing/test_routing_table.py",
        "test_every_combination_goes_where_the_table_sends_it",
    ),
]
"""A claim, the file with its tests, and the test; all of the file if that is empty."""


@pytest.mark.parametrize(("claim", "file", "test"), CLAIMS, ids=[claim[0][:40] for claim in CLAIMS])
def test_a_claim_of_the_readme_has_a_test(claim: str, file: str, test: str) -> None:
    assert claim in (ROOT / "README.md").read_text(encoding="utf-8")

    tests = re.findall(r"^(?:async )?def (test_\w+)", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)

    assert test in tests if test else tests

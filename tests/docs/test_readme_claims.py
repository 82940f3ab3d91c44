"""Each claim of the README about networks, files and responders has a test."""

from __future__ import annotations

import re

import pytest

from support.documents import ROOT

CLAIMS = [
    ("checks the answer", "tests/agent/test_misuse.py", ""),
    (
        "It records the question, the asker, the answer, the responder and the reason.",
        "tests/cli/test_who_answered.py",
        "",
    ),
    (
        "no model and no default may answer",
        "tests/routing/test_routing_table.py",
        "test_exclusive_questions_are_never_answered_by_a_model_or_default",
    ),
    (
        "or an answer that you set in your own configuration or program",
        "tests/agent/test_policies.py",
        "test_routes_accept_configuration_values",
    ),
    (
        (
            "The turn is suspended, and the question is stored in `conversations`. The process can"
            " end."
        ),
        "tests/agent/test_agent.py",
        "test_turn_without_a_prompter_is_suspended_and_resumed_by_another_agent",
    ),
    ("Any process can answer, today or next week.", "tests/agent/test_server_example.py", ""),
    (
        "the worker `midturn worker ship:agent` continues the turn",
        "tests/cli/test_worker_dependencies.py",
        "test_a_worker_process_gives_each_turn_the_dependencies_of_its_author",
    ),
    (
        "agents lose a question when their process dies",
        "tests/stories/test_killed_turns.py",
        "test_turn_survives_sigkill_at_any_time",
    ),
    ("It needs git,", "tests/cli/test_demo_command.py", "test_demo_reports_that_it_needs_git"),
    (
        (
            "no API key and no network. It works in a temporary directory and does not change or"
            " create any other files."
        ),
        "tests/cli/test_demo_command.py",
        "test_the_demo_needs_no_network_and_creates_files_in_its_temporary_directory_only",
    ),
    ("If nobody can be asked, [a policy]", "tests/stories/test_detached_policies.py", ""),
    (
        "The first answer wins, and all other prompts close.",
        "tests/runtime/test_driver.py",
        "test_an_outside_answer_closes_the_prompt_and_names_the_responder",
    ),
    (
        "If the process is killed, recorded answers are not asked for again",
        "tests/stories/test_killed_turns.py",
        "test_turn_survives_sigkill_at_any_time",
    ),
    ("shows the exact arguments", "tests/turn/test_approvals.py", ""),
    (
        (
            "Questions for [certain people or groups](docs/howto/people.md), two-person approval,"
            " deadlines, reminders, escalation"
        ),
        "tests/stores/postgres/test_a_day.py",
        "",
    ),
    (
        "[never stored, logged or sent to a model]",
        "tests/runtime/test_secret_leaks.py",
        "test_no_secret_of_a_call_leaks",
    ),
    (
        "Text from tools and models cannot control the terminal",
        "tests/question/test_visible.py",
        "test_attacks_are_escaped",
    ),
    ("or imitate a prompt.", "tests/prompts/rich/test_hostile_questions.py", ""),
    (
        "An approval applies only to the exact arguments that were shown.",
        "tests/agent/test_edits_and_rules.py",
        "",
    ),
    (
        (
            "A tool or an agent cannot use midturn's own commands to answer questions, approve calls or"
            " change the configuration."
        ),
        "tests/cli/test_reserved_commands.py",
        "test_tool_process_may_not_approve_configure_or_decide",
    ),
    (
        "and asks a person before a tool runs.",
        "tests/docs/test_documents.py",
        "test_every_example_does_what_the_document_says",
    ),
    (
        "so nobody is asked twice",
        "tests/agent/test_open_turns.py",
        "test_cancelled_task_leaves_the_turn_open_and_asks_once",
    ),
    (
        (
            "A configuration file in a repository cannot start programs until you approve it with"
            " `midturn trust`."
        ),
        "tests/hostile/test_hostile_repository.py",
        "test_file_of_a_clone_runs_nothing",
    ),
    (
        "If the file or a script that it runs changes, you have to approve it again.",
        "tests/cli/test_trust_command.py",
        "test_a_change_needs_a_new_approval",
    ),
    (
        ("a person, an inbox, a second model or the configuration, chosen by a routing table"),
        "tests/routing/test_routing_table.py",
        "test_every_combination_is_routed_as_in_the_table",
    ),
]
"""A claim, the test file, and the name of the test. An empty name stands for the whole file."""


@pytest.mark.parametrize(("claim", "file", "test"), CLAIMS, ids=[claim[0][:40] for claim in CLAIMS])
def test_a_claim_of_the_readme_has_a_test(claim: str, file: str, test: str) -> None:
    assert claim in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())

    tests = re.findall(
        r"^(?:async )?def (test_\w+)", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE
    )

    assert test in tests if test else tests

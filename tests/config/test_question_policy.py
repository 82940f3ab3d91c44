"""Precedence of question policies: the layer first, then the specificity of a key, field by
field. A tool's own entry comes first.
"""

from __future__ import annotations

import pytest
from msgspec import UNSET

from midturn.events.types import ASSISTANT, Source
from midturn.routing.policy import QuestionPolicy, Target
from support.workspaces import Workspace


def policy(workspace: Workspace, *cfg: str, question: str = "confirm") -> QuestionPolicy:
    return workspace.load(*cfg).settings.tool("deploy").policy.question(question)


def test_inside_a_layer_an_id_wins_over_the_star(workspace: Workspace) -> None:
    workspace.user(
        "[conversation.tools.deploy.questions]\nconfirm.answer = true\n'*'.answer = false\n"
    )

    assert policy(workspace).answer is True
    assert policy(workspace, question="other").answer is False


def test_a_higher_layers_star_wins_over_a_lower_layers_id(workspace: Workspace) -> None:
    workspace.user(
        "conversation.tools.deploy.questions.confirm = { answer = true, prompt_label = 'Kept' }"
    )

    found = policy(workspace, "conversation.tools.deploy.questions.*.answer=false")

    assert found.answer is False
    assert found.prompt_label == "Kept"


def test_flags_are_one_layer_in_which_the_order_does_not_beat_the_id(workspace: Workspace) -> None:
    found = policy(
        workspace,
        "conversation.tools.deploy.questions.confirm.answer=1",
        "conversation.tools.deploy.questions.*.answer=2",
    )

    assert found.answer == 1


def test_between_tools_the_own_entry_wins_over_the_star_of_any_layer(workspace: Workspace) -> None:
    workspace.user("[conversation.tools.deploy]\nrun = 'skip'\nquestions.'*'.answer = 'own'\n")

    settings = workspace.load(
        "conversation.tools.*.run=unattended", "conversation.tools.*.questions.confirm.answer=all"
    ).settings

    assert settings.tool("deploy").policy.run == "skip"
    assert settings.tool("deploy").policy.question("confirm").answer == "own"
    assert settings.tool("other").policy.question("confirm").answer == "all"


def test_a_built_ins_own_entry_counts_as_its_own(workspace: Workspace) -> None:
    workspace.user("conversation.tools.'*'.run = 'ask'")

    settings = workspace.load().settings

    assert settings.tools["fs_read_file"].policy.run == "unattended"
    assert settings.tools["fs_create_file"].policy.run == "ask"


def test_questions_of_all_tools_reach_a_tool_that_configures_others(workspace: Workspace) -> None:
    workspace.user(
        "[conversation.tools.'*'.questions]\nconfirm.target = 'assistant'\n'*'.prompt_label ="
        " 'All'\n[conversation.tools.deploy.questions.region]\nanswer = 'eu-1'\n",
    )

    assert policy(workspace).target == Target("assistant")
    assert policy(workspace).prompt_label == "All"
    assert policy(workspace, question="region").answer == "eu-1"


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ('"user"', Target("user")),
        ('"assistant"', Target("assistant")),
        ('"assistant_with_escalation"', Target("assistant_with_escalation")),
        ("{ model.id = 'a/b' }", Target("assistant", {"model": {"id": "a/b"}})),
        ("{ model.id = 'a/b', escalation = false }", Target("assistant", {"model": {"id": "a/b"}})),
        (
            "{ model.id = 'inherit', escalation = true }",
            Target("assistant_with_escalation", {"model": {"id": "inherit"}}),
        ),
        ("{ escalation = true }", Target("assistant_with_escalation")),
    ],
)
def test_a_target_is_a_word_or_a_table_of_assistant_settings(
    workspace: Workspace, written: str, target: Target
) -> None:
    workspace.user(f"conversation.tools.deploy.questions.confirm.target = {written}")

    assert policy(workspace).target == target


def test_targets_merge_field_by_field(workspace: Workspace) -> None:
    workspace.user(
        "conversation.tools.deploy.questions.confirm.target = { model.id = 'a/b', escalation ="
        " true }"
    )
    key = "conversation.tools.deploy.questions.confirm.target"

    other_model = policy(workspace, f"{key}.model.id=c/d")
    assert other_model.target == Target("assistant_with_escalation", {"model": {"id": "c/d"}})
    assert policy(workspace, f"{key}=assistant").target == Target(
        "assistant", {"model": {"id": "a/b"}}
    )
    assert policy(workspace, f"{key}=user").target == Target("user")


def test_unset_value_is_not_an_answer(workspace: Workspace) -> None:
    assert policy(workspace) == QuestionPolicy()
    assert policy(workspace).answer is UNSET


def test_only_ask_user_has_the_assistant_as_source(workspace: Workspace) -> None:
    """No configuration value changes the source of a question."""
    workspace.user("conversation.tools.deploy.questions.'*'.prompt_label = 'Assistant'")

    settings = workspace.load().settings

    assert settings.tools["ask_user"].policy.source == ASSISTANT
    assert settings.tool("deploy").policy.source == Source.tool("deploy")
    assert settings.tools["fs_modify_file"].policy.source == Source.tool("fs_modify_file")


def test_detached_policies_go_from_the_tools_kind_to_the_default(workspace: Workspace) -> None:
    workspace.user(
        "[conversation.tools]\n'*'.detached = { run = 'defer', tool = 'deny' }\ndeploy.detached.run"
        " = 'auto'\n"
    )

    detached = workspace.load().settings.tool("deploy").policy.detached

    assert (detached.run, detached.tool, detached.deliver) == ("auto", "deny", "auto")


def test_an_answer_names_the_file_that_set_it(workspace: Workspace) -> None:
    workspace.workspace("conversation.tools.deploy.questions.confirm.answer = true\n")
    workspace.trust()

    assert policy(workspace).origin == ".midturn/config.toml"
    assert (
        policy(workspace, "conversation.tools.deploy.questions.confirm.answer=true").origin
        == "--cfg"
    )
    assert policy(workspace, question="other").origin is None

"""`midturn conversation`: show, search, import, export and delete conversations."""

from __future__ import annotations

from midturn.cli.lazy import CommandEntry, lazy_group

command = lazy_group(
    "conversation",
    "Show, search, import, export and delete conversations. Commands default to the current"
    " conversation.",
    {
        "ls": CommandEntry("midturn.cli.conversation.ls:ls_command", "List conversations"),
        "show": CommandEntry("midturn.cli.conversation.show", "Show a conversation"),
        "usage": CommandEntry(
            "midturn.cli.conversation.show:usage_command", "Show token usage or response times"
        ),
        "grep": CommandEntry("midturn.cli.conversation.show:grep_command", "Search conversations"),
        "use": CommandEntry(
            "midturn.cli.conversation.ls:use_command", "Set the current conversation"
        ),
        "edit": CommandEntry(
            "midturn.cli.conversation.transfer:edit_command",
            "Change the title or labels, or edit the log",
        ),
        "fork": CommandEntry(
            "midturn.cli.conversation.transfer:fork_command",
            "Copy the finished turns into a new conversation",
        ),
        "rm": CommandEntry(
            "midturn.cli.conversation.transfer:rm_command", "Delete conversations permanently"
        ),
        "prune": CommandEntry(
            "midturn.cli.conversation.transfer:prune_command", "Delete inactive conversations"
        ),
        "export": CommandEntry(
            "midturn.cli.conversation.transfer:export_command",
            "Export a conversation as Markdown, JSON Lines or for jp",
        ),
        "import": CommandEntry(
            "midturn.cli.conversation.transfer:import_command", "Import conversations"
        ),
        "path": CommandEntry(
            "midturn.cli.conversation.ls:path_command", "Print the directory of a conversation"
        ),
    },
    {
        "list": "ls",
        **dict.fromkeys(("print", "view", "cat", "transcript", "log"), "show"),
        **dict.fromkeys(("search", "find"), "grep"),
        **dict.fromkeys(("switch", "select", "checkout"), "use"),
        **dict.fromkeys(("rename", "title", "label", "labels"), "edit"),
        **dict.fromkeys(("copy", "branch", "cp"), "fork"),
        **dict.fromkeys(("delete", "remove"), "rm"),
        **dict.fromkeys(("clean", "gc", "expire"), "prune"),
    },
)
command.gone = {"verify": "Conversations are no longer sealed, so there is nothing to verify."}

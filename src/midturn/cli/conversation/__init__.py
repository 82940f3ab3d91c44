"""`midturn conversation`: looks at conversations, and moves them in and out."""

from __future__ import annotations

from midturn.cli.lazy import CommandEntry, lazy_group

command = lazy_group(
    "conversation",
    "Look at conversations, and move them in and out. Without an ID, the current conversation is meant.",
    {
        "ls": CommandEntry("midturn.cli.conversation.ls:ls_command", "List them."),
        "show": CommandEntry("midturn.cli.conversation.show", "Show one: what was said, asked, or spent."),
        "usage": CommandEntry("midturn.cli.conversation.show:usage_command", "Count tokens, or how long people were waited for."),
        "grep": CommandEntry("midturn.cli.conversation.show:grep_command", "Search what was said and done."),
        "use": CommandEntry("midturn.cli.conversation.ls:use_command", "Make one the current one."),
        "edit": CommandEntry("midturn.cli.conversation.transfer:edit_command", "Change a title or labels, or open the file."),
        "fork": CommandEntry("midturn.cli.conversation.transfer:fork_command", "Copy the finished turns into a new one."),
        "rm": CommandEntry("midturn.cli.conversation.transfer:rm_command", "Remove conversations for good."),
        "prune": CommandEntry(
            "midturn.cli.conversation.transfer:prune_command", "Remove finished ones in which nothing was said for long."
        ),
        "export": CommandEntry("midturn.cli.conversation.transfer:export_command", "Write one as Markdown, JSON lines, or for jp."),
        "import": CommandEntry(
            "midturn.cli.conversation.transfer:import_command", "Take in those of another store, or one that jp recorded."
        ),
        "path": CommandEntry("midturn.cli.conversation.ls:path_command", "Print the directory of one."),
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
command.gone = {"verify": "Conversations are not sealed: what lies in your own data directory is what was recorded."}

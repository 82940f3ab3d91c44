"""`midturn conversation`: looks at conversations, and moves them in and out."""

from __future__ import annotations

from midturn.cli.lazy import Entry, lazy_group

command = lazy_group(
    "conversation",
    "Look at conversations, and move them in and out. Without an ID, the current conversation is meant.",
    {
        "ls": Entry("midturn.cli.conversation.ls", "List them."),
        "show": Entry("midturn.cli.conversation.show", "Show one: what was said, asked, or spent."),
        "grep": Entry("midturn.cli.conversation.grep", "Search what was said and done."),
        "use": Entry("midturn.cli.conversation.use", "Make one the current one."),
        "edit": Entry("midturn.cli.conversation.edit", "Change a title or labels, or open the file."),
        "verify": Entry("midturn.cli.conversation.verify", "Say whether one was begun and decided here."),
        "fork": Entry("midturn.cli.conversation.fork", "Copy the finished turns into a new one."),
        "rm": Entry("midturn.cli.conversation.rm", "Remove conversations for good."),
        "export": Entry("midturn.cli.conversation.export", "Write one as Markdown, JSON lines, or for jp."),
        "import": Entry("midturn.cli.conversation.importing", "Take in those of another store, or one that jp recorded."),
        "path": Entry("midturn.cli.conversation.path", "Print the directory of one."),
    },
    {
        "list": "ls",
        **dict.fromkeys(("print", "view", "cat", "transcript", "log"), "show"),
        **dict.fromkeys(("search", "find"), "grep"),
        **dict.fromkeys(("switch", "select", "checkout"), "use"),
        **dict.fromkeys(("rename", "title", "label", "labels"), "edit"),
        **dict.fromkeys(("copy", "branch", "cp"), "fork"),
        **dict.fromkeys(("delete", "remove"), "rm"),
    },
)

"""The command line (spec 8.2): one file a command."""

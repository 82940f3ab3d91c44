"""The built-in file tools: confined to the workspace, and asking before they destroy anything."""

"""What a team adds to midturn: a store by name, an agent of its own, a command, and a tool."""

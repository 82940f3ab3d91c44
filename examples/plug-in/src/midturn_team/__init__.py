"""A plug-in package of a team: a store by name, an agent, a channel, a command, and a tool."""

"""The Agent Client Protocol: agents that are run here, and what they ask."""

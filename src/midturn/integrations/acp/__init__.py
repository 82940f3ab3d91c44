"""The Agent Client Protocol: midturn as an agent in an editor, and as a client of other agents."""

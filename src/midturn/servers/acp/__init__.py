"""Our assistant as an agent of the Agent Client Protocol: editors show what it says, and what it asks."""

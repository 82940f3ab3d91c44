"""What separates a tool's process from its user: what it can reach, what it can see, and how it is known again."""

"""Storage of conversations: files, memory and PostgreSQL."""

"""The log of a conversation: an event as bytes, and what others make of many: a provider, a teller. The heart reads none of it."""

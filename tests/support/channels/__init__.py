"""Fake and local servers of chat platforms, and clients that act as their users."""

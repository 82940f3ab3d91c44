"""What others connect to."""

"""The person at the controlling terminal: prompts on a descriptor of their own, output around them."""

"""Public API for programs that build agents: `Agent`, `Inquirer`, prompters, results and
streams.
"""

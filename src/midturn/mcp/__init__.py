"""Client for Model Context Protocol servers. It calls the servers' tools and answers the servers'
questions.
"""

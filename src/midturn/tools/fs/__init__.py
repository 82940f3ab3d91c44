"""The built-in file tools. They are confined to the workspace, and ask before they overwrite or
delete content that has no other copy.
"""

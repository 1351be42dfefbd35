"""A folder for the path of the Python processes that Spark's Java starts: Python runs its `sitecustomize` first.

This package uses nothing of the project, because it runs before each of these processes does anything else. Only
`python_path` uses it, by its folder's name.
"""

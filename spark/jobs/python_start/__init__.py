"""A folder for the path of the Python processes that a job's Java starts: Python runs its `sitecustomize` first.

This package uses nothing of the project, because it runs before each of these processes does anything else. Only
`job_session` uses it, by its folder's name.
"""

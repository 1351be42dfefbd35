"""Opens what a path or URL of a job leads to: a folder of this machine, an object store, or HDFS.

This package uses no other one of this project. The jobs, and the package of their tables, use it.
"""

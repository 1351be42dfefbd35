"""This broker as a client of its peers, which are the other brokers of the cluster: calls of their admin interface, and
producers, consumers and readers of topics that peers own.

This package may use the configuration, the namespaces, the policies, the schemas and the errors of security. The
packages `broker`, `admin` and `programs` use this package. It has no access to the topics that this broker has loaded.
"""

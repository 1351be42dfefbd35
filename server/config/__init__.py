"""The configuration: the keys that exist, the reading of files, and the typed settings from which each part is built.

Every package of the server may use this package, which itself knows only the settings classes of the storage and the
names of the schemas' compatibility strategies. The configuration is read once, at the start, and settings are handed to
constructors. Settings that an administrator changes later are changed in place
(`server/broker/dynamic_configuration.py`).
"""

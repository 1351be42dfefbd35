"""The configuration: the keys that exist, the reading of files, and the typed settings from which each part is built.

Most packages of the server use this package. It knows the settings classes of the storage and of the ZooKeeper server,
the parsers of metadata addresses, and the names of the schemas' compatibility strategies. The configuration is read
once, at the start, and settings are handed to constructors. Settings that an administrator changes later are changed in
place (`server/broker/dynamic_configuration.py`).
"""

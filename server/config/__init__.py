"""The configuration: which keys there are, how files are read, and the typed settings that each part is built from.

Every room of the server may use it; it knows only the settings classes of the storage and the names of the schemas'
compatibility strategies. Nothing reads the configuration later: settings are handed to constructors at the start.
"""

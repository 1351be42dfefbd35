"""The topics of this broker: how they are loaded, configured by policies, unloaded and deleted. Producers are in
`publishing`, consumers in `subscriptions`, the other domain in `non_persistent`. Topics use the log and the policies,
and never the rooms that show or serve them: stats, admin, protocol.
"""

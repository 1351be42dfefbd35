"""The topics of this broker: how topics are loaded, configured by policies, unloaded and deleted. The code for
producers is in `publishing`, the code for consumers in `subscriptions`, and non-persistent topics are in
`non_persistent`. This package imports the managed ledger and the policies. This package never imports the packages that
show topics or serve clients (stats, admin, protocol).
"""

"""Who may do what: authentication, authorization, TLS (facts 2 and 9).

`service.Security` is what a server holds; it is None when everything is off, and then nothing of this package but
`settings` is imported.
"""

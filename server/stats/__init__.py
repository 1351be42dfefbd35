"""The stats of topics, subscriptions, producers and consumers for the answers of the admin API, and the page of
/metrics. This package counts nothing: its functions read topics and the broker when a client asks. The admin API and
the handlers of client commands use this package. Topics never use this package.
"""

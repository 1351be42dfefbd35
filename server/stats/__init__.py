"""The broker's information about itself: the stats of topics, subscriptions, producers and consumers that the admin API
answers with, and the page of /metrics. Nothing is counted here: these functions read topics and the broker when
somebody asks. The admin API, the web server and the protocol's handlers use this room; topics never do.
"""

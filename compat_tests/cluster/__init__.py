"""Clusters of real processes for tests and measurements: ZooKeeper, bookies and brokers, ours or Apache's in any seat.

    with Cluster(tmp_path, bookies=3, brokers=2) as cluster:
        client = pulsar.Client(cluster.service_url)
        cluster.brokers[0].kill()
        cluster.brokers[0].start()          # on the same ports
        cluster.zookeeper.pause()
        cluster.zookeeper.resume()

`Cluster` starts the metadata store, initializes the cluster, then starts the bookies and the brokers; leaving it stops
all of them, and raises if one of ours logged an ERROR line or held its event loop for too long. `add_broker` and
`add_bookie` add processes later, and `Seats` says whose software sits in each seat. Each process has a folder below
that of the cluster with its log. Nothing here knows our code: a process is a command line, a ready line, signals and a
log.
"""

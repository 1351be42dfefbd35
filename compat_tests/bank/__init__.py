"""The bank: money moves between accounts by transactions while servers are killed, and none of it may be lost, doubled
or seen half moved.

    make bank ROUNDS=100                            # kills of a standalone server
    make bank ROUNDS=30 ARGS="--brokers 3"          # kills of one of three brokers

An account is a topic, and money is its unspent notes: messages with an amount. Twenty clients (`Bank.java`, with
Apache's Java client) take notes from a shared subscription, acknowledge them and publish notes of the same worth to
other accounts in one transaction. `observer` reads all accounts the whole time with Apache's C++ client, which knows
nothing of transactions, and `claims` says what it must have seen; its docstring lists the claims. `site` kills the
servers and starts them again, and `campaign` runs the rounds.
"""

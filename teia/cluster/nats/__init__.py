"""The connection to NATS: everything here speaks its protocol and knows nothing of crawling.

wire     one connection, its options, its errors as messages for people
client   nats-py's client, with connections that it gives up closed
thread   the event loop of the cluster, in a thread of its own
servers  NATS servers as child processes, for a local cluster and for tests
objects  whole files under immutable names: object store, folder or S3
"""

"""Search requests to shards here and on other machines.

searcher         typed text in, results out; start reading here
results_cache    answers to repeated searches
query_execution  one query on its way through all steps
gateway          request all shards at once, within a time limit
shards           a shard, and the local one
remote_shards    shards on other machines
shard_server     the local shard, as a server for other machines
wire_format      requests and answers as bytes
"""

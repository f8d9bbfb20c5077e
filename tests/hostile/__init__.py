"""The hostile web: one test for each entry of the catalogue, the entry points of sockets, and the address guard.

test_entries       a crawl of all hostile behaviours of the lab, judged by the servers' own logs
test_sockets       every place that opens a socket is registered, and covered
test_rate          the rate of good hosts beside hostile ones
test_guard         thousands of combinations of entry point, spelling, hop and rebinding
"""

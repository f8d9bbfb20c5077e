"""The order of hosts, and the time each may be requested again.

schedule          hosts with work, and the next one
politeness        delays between requests to a server or address
ledger            delays on disk, for all collections of a root
order             the orders of a host's new URLs
sydney            the Sydney order
tunnels           pages that lead to the topic without being on it
retry             the next state of a URL after an outcome
host_rules        an operator's rules for single hosts
shared_addresses  addresses that many sites share
waiting_hosts     hosts that wait on disk for room in memory
"""

"""The laboratory: a web made from a seed, and the experiments on it (docs/lab.md).

plan        `teia lab plan`: plans for the pages of a file
world/      a synthetic web: deterministic, and true at every instant
text/       text of synthetic pages
server/     a world on loopback sockets
hostile/    servers that mean ill
measure/    freshness by the lab's truth
corpus/     lab text by the hundred thousand pages, for measuring search
simulate/   the event simulator of revisit policies
whatif/     predictions for a collection under other settings
lookup/     models of peer-to-peer overlays
parallel/   models of parallel crawlers
reproduce/  the papers' experiments, reproduced
"""

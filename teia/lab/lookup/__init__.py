"""The cost of a look-up in peer-to-peer overlays, compared as in section 3.2 of A's paper.

overlay.py   the interface: hops, the nodes a node must know, the keys a new node takes
rings.py     Chord, and our own circle: complete knowledge, or routing by fingers
can.py       CAN: zones of a torus
pastry.py    Pastry: digits of an id, and a set of leaves
protocol.py  Chord by messages: join, leave and stabilisation, as in the paper

The models know neither time nor messages: their tables are those of a settled network. Chord and our circle use the
code of the cluster itself (teia/cluster/circle/circle.py). `teia lab reproduce A2` compares them.
"""

"""The cost of a look-up in peer-to-peer overlays, compared as in section 3.2 of A's paper.

overlay.py   the interface: hops, the nodes a node must know, the keys a new node takes
rings.py     Chord, and our own circle: complete knowledge, or routing by fingers
can.py       CAN: zones of a torus
pastry.py    Pastry: digits of an id, and a set of leaves
protocol.py  Chord by messages: join, leave and stabilisation, as in the paper
simulated.py a network for that protocol on a virtual clock, with losses and crashes
churn.py     look-ups while nodes come and go: by Chord's messages, and by our table of members
over_nats.py that protocol over the subjects of a NATS server: the time of a look-up

The models of the first four know neither time nor messages: their tables are those of a settled network. Chord and our
circle use the code of the cluster itself (teia/cluster/circle/circle.py). `teia lab reproduce A2` compares them.
"""

"""What a look-up costs: overlays of peer-to-peer systems side by side, as section 3.2 of A's paper describes them.

overlay.py   what is asked of each: hops, what a node must know, what a newcomer takes
rings.py     Chord, and our own circle: everybody knows everybody, or goes by fingers
can.py       CAN: zones of a torus
pastry.py    Pastry: digits of an id, and a set of leaves

They are models without time and messages: tables are what they are once everything has settled. Chord and ours are the
very code that the cluster goes by (teia/cluster/chord.py). `teia lab reproduce A2` compares them.
"""

"""Charts as SVG that the server draws.

charts  line, bar and area charts
scales  axes and their round numbers
ring    the circle of nodes as a picture
"""

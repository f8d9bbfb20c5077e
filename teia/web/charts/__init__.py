"""Charts as SVG that the server draws.

charts   line, bar and area charts
scales   axes and their round numbers
windows  time ranges that a reader can choose
ring     the circle of nodes as a picture
"""

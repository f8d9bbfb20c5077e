"""The lab in the browser.

runs       runs: start, watch, read, compare
run_forms  forms of the lab
"""

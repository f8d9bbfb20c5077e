"""`teia cluster` and `teia node`.

commands    `teia cluster up`, `status`, `down`
change      `teia cluster move`, `drain`, `split`, `set`, `copy`
connection  the cluster that a command is for
lookup      `teia cluster lookup`
node        `teia node`
"""

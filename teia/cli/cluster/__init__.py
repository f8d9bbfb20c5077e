"""`teia cluster` and `teia node`.

commands  `teia cluster up`, `status`, `down`
change    `teia cluster move`, `drain`, `split`, `set`
copy      `teia cluster copy`
lookup    `teia cluster lookup`
node      `teia node`
"""

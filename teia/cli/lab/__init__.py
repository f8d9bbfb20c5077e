"""`teia lab`.

commands   the group of commands
plan       `teia lab plan`
reproduce  `teia lab reproduce`
serve      `teia lab serve`
simulate   `teia lab simulate`
whatif     `teia lab whatif`
"""

"""`teia lab`.

commands  the group of commands; `teia lab plan`, `reproduce`
serve     `teia lab serve`
simulate  `teia lab simulate`
whatif    `teia lab whatif`
"""

"""Settings: how one is declared, all of them, and where their values come from.

declare   `setting`: one setting with its description, unit and limits; the check of a value
choices   names that settings choose from: orders, policies
sections  every setting, in one typed tree; begin here
tree      dotted keys of a tree of sections; values read into it
load      a configuration from defaults, file, environment and flags; written back as TOML
flags     flags of `teia crawl` as names of settings
"""

"""Settings: how one is declared, all of them, and where their values come from.

sections  every setting, in one typed tree; the names that settings choose from, and flags as names; begin here
tree      `setting`: one setting with its description, unit and limits; values checked and read by dotted keys
extensions  names that installed packages add to the choices, and what is behind them
load      a configuration from defaults, file, environment and flags; written back as TOML
"""

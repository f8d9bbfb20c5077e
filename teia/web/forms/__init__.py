"""Forms in which collections are drafted.

drafts  a draft: fields, errors, compiled settings
fields  fields of the form and the settings behind them
"""

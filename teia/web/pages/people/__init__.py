"""Accounts.

people   users, tokens, the log of changes
sign_in  signing in and out
"""

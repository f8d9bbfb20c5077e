"""Accounts, roles and scopes: the rights of people and programs.

accounts  users, sessions, tokens and the log of changes: `web.sqlite`
roles     roles of people, scopes of tokens
"""

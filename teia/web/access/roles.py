"""Roles of users. Each role includes the rights of all roles before it."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """PUBLIC searches; VIEWER reads everything; OPERATOR commands and edits; ADMIN manages users and deletes."""

    PUBLIC = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


def role_named(word: str) -> Role | None:
    """Return the role with this name; None for an unknown name and for PUBLIC, which no user is given."""
    return next((role for role in Role if role.word == word and role is not Role.PUBLIC), None)

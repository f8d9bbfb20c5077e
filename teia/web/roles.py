"""What people may do. Each role may do all that those before it may."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """PUBLIC searches; VIEWER reads everything; OPERATOR commands and edits; ADMIN has people and deletes."""

    PUBLIC = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


def role_named(word: str) -> Role | None:
    """The role a person may be given; nobody is given PUBLIC."""
    return next((role for role in Role if role.word == word and role is not Role.PUBLIC), None)

"""Change of one value in a TOML text, and nothing else: the user's comments and order stay."""

from __future__ import annotations


def with_value(text: str, table: str, key: str, value: str) -> str:
    """Return the text with `key` of `[table]` set to `value`, itself TOML; table and key are added if need be.

    ValueError if the text cannot be edited.
    """
    import tomlkit  # takes as long to import as a short command takes in all
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        # As in a text written by hand, a blank line comes before a new table.
        document.setdefault(table, tomlkit.table())[key] = tomlkit.value(value)
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError) as error:
        raise ValueError(f"[{table}] {key} cannot be set: {error}") from error

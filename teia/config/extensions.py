"""Extensions: objects of other packages, found by the name under which their packages offer them (docs/extending.md).

A package offers an object as an entry point of one of these groups. A name that teia has itself comes first, so an
extension replaces nothing, and the metadata of installed packages is read only for a name that is not built in.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from teia.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ORDERS = "teia.orders"
POLICIES = "teia.policies"
PROCESSORS = "teia.processors"
REPORTS = "teia.reports"
SCOPE_RULES = "teia.scope_rules"
SIGNAL_SOURCES = "teia.signal_sources"
GROUPS = (ORDERS, POLICIES, PROCESSORS, REPORTS, SCOPE_RULES, SIGNAL_SOURCES)


def extension_names(group: str) -> tuple[str, ...]:
    """Return the names that installed packages offer in a group, sorted."""
    return tuple(sorted(_offered(group, tuple(sys.path))))


def load_extension(group: str, name: str) -> Any:
    """Return what a package offers under a name; None if none does. An object that cannot be imported is an error."""
    found = _offered(group, tuple(sys.path)).get(name)
    if found is None:
        return None
    try:
        loaded = found.load()
    except Exception as error:  # the package is the operator's own and may fail in any way when it is loaded
        raise ConfigError(f"the extension {name!r} of {group} ({found.value}) cannot be imported: {error}") from error
    if not callable(loaded) and not hasattr(loaded, "plan"):
        raise ConfigError(f"the extension {name!r} of {group} ({found.value}) is no function")
    return loaded


@cache
def _offered(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:  # noqa: ARG001  # packages are looked for there
    # Imported here: every process loads this module, and few look for an extension.
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=group)}

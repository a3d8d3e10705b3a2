"""Is this machine set up for steady packet rates? The room itself is callable: ``lk.audit()``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.audit.check import Audit


class _Room(ModuleType):
    """A package that is called like its one function, for importing it takes the name `labkit.audit`."""

    def __call__(self, *words: Any, **options: Any) -> Audit:
        """`labkit.audit.run.audit`."""
        from labkit.audit.run import audit

        return audit(*words, **options)


sys.modules[__name__].__class__ = _Room

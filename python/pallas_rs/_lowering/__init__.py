"""From a kernel's jaxpr to a program: one rule per primitive.

Importing this package registers every rule. To add a primitive, write a function with
`@rule("its_name")` in the module of its family; `_registry` says what a rule is told and returns.
"""

from __future__ import annotations

import importlib

from ._context import Kernel as Kernel
from ._context import RuleContext as RuleContext
from ._registry import RULES as RULES
from ._unsupported import UNSUPPORTED as UNSUPPORTED

for _module in (
    "_elementwise",
    "_shape",
    "_reduce",
    "_dot",
    "_control_flow",
    "_indexing",
    "_memory",
    "_grid",
    "_debug",
    "_mesh",
    "_scopes",
    "_semaphores",
    "_stealing",
    "_sync",
    "_peers",
    "_tma",
    "_tensor_core",
    "_together",
    "_tensor_memory",
    "_inline",
    "_noops",
):
    importlib.import_module(f"{__name__}.{_module}")
del _module

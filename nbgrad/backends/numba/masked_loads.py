"""Masked loads that LLVM 22 has moved past a store, and so read what was written after them.

Vectorised loops load elements under a condition by ``llvm.masked.load``. LLVM 22 folds ``select(mask, load, other)``
into a load with `other` for the remaining lanes, but puts the new load where the select was
(llvm/llvm-project#215453). If a store to the element lies between them, the load reads the stored value:
``if m[i]: g = s[i]; s[i] = 0`` makes `g` zero. Functions in which that may have happened are compiled without
vectorised loops.
"""

from __future__ import annotations

import re

__all__ = ["may_read_too_late"]

_GEP = re.compile(r"^\s*(%\S+) = getelementptr .*?ptr (%[^\s,]+|@[^\s,]+)", re.MULTILINE)
_BLOCK = re.compile(r"^\S+:", re.MULTILINE)
_LOAD = re.compile(r"@llvm\.masked\.load\.\S*\(ptr (?:align \d+ )?([%@][^\s,)]+), (.*)\)")
_STORE = re.compile(
    r"^\s*(?:store .*?, ptr ([%@][^\s,]+)|.*@llvm\.masked\.store\.\S*\(.*?, ptr (?:align \d+ )?([%@][^\s,)]+)"
    r"|.*@llvm\.masked\.scatter\.|.*@llvm\.mem(?:set|cpy|move)\.)"
)


def may_read_too_late(function: str) -> bool:
    """Whether a folded load follows a store, to the same array or an unknown one, in a block of an LLVM function.

    Loads of the vectoriser have poison in lanes that are off, so only folded loads have other values there. Stores with
    ``alias.scope`` are to arrays that share no memory with arrays of other names.
    """
    if "@llvm.masked.load." not in function:
        return False
    above = dict(_GEP.findall(function))

    def array(pointer: str) -> str:
        while pointer in above:
            pointer = above[pointer]
        return pointer

    for block in _BLOCK.split(function):
        written: set[str] = set()
        anything = False
        for line in block.split("\n"):
            if load := _LOAD.search(line):
                folded = not load[2].rstrip().endswith("poison")
                if folded and (anything or array(load[1]) in written):
                    return True
            elif store := _STORE.match(line):
                pointer = store[1] or store[2]
                if pointer is not None:
                    written.add(array(pointer))
                anything |= pointer is None or "!alias.scope" not in line
    return False

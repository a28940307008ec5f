"""Kernels as PTX."""

import gc
import importlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from numba import cuda

from nbgrad.backends.cuda import driver


def ptx(function: Callable, kinds: Sequence, capabilities: Sequence[tuple[int, int]]) -> list[str]:
    """The kernel's PTX for each of these compute capabilities, which Numba's part of the work is done once for.

    Needs numba-cuda with the toolkit's compiler, and no device.
    """
    dispatcher: Any = importlib.import_module("numba.cuda.dispatcher")
    nvvm: Any = importlib.import_module("numba.cuda.cudadrv.nvvm")
    given: dict[str, Any] = {}
    before, compile_ir = dispatcher.get_current_device, nvvm.compile_ir

    def kept(ir, **options) -> bytes:
        given.update(ir=ir, options=options)
        return compile_ir(ir, **options)

    first, *others = capabilities
    # Device functions ask the current device what to compile for.
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=first)
    nvvm.compile_ir = kept
    gc.disable()  # what Numba makes is seldom garbage, and looking for it takes a tenth of the time
    try:
        text, _ = cuda.compile_ptx(function, driver.signature(kinds), cc=first, **driver.OPTIONS)
    finally:
        gc.enable()
        dispatcher.get_current_device, nvvm.compile_ir = before, compile_ir
    texts = [text]
    for major, minor in others:
        made = compile_ir(given["ir"], **{**given["options"], "arch": f"compute_{major}{minor}"})
        texts.append(made.decode().strip("\x00").strip())
    return texts

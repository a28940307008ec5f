"""Routines that generated code calls: compiled once, called by symbols, and there before stored callers are loaded."""

import os

import numba
import numpy as np
import pytest
from test_cache import ROOT, run, stored

import nbgrad as nb
from nbgrad.backends.numba import code_store, routines
from nbgrad.loops.runtime.products import add_product, add_to_triangle

PRODUCT = """
import numpy as np, nbgrad as nb
from test_routines import product
a = np.arange(400.0).reshape(20, 20)
print(nb.adjoint(product).value_and_grad(a / 400, np.cos(a))[1][0].sum())
"""


def compiled_product():
    """The adjoint of `product`, compiled by this process."""
    x = np.eye(30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_store, "load", lambda *_: None)
        compiled = nb.adjoint(product).compiled(x, x)
        compiled(x, x, 1.0, np.zeros_like(x), np.zeros_like(x))
    (result,) = compiled.overloads.values()
    return result


def product(a, b):
    return np.sum(a @ b * b)


def lower(a, b, c):
    for i in range(c.shape[0]):
        for j in range(i + 1):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[j, k]
        for j in range(i):
            c[i, j] *= 0.5
    return np.sum(c)


def test_callers_do_not_contain_them():
    result = compiled_product()
    functions = {g.name: g.is_declaration for g in result.library._final_module.functions}
    called = [name for name in functions if name.startswith("nbgrad.add_product.")]
    assert called and all(functions[name] for name in called)
    assert {r.symbol for r in routines.required(result)} == set(called)
    assert not any("narrow" in name for name in functions)


def test_constants_are_no_reason_to_compile_again():
    x = np.eye(30)
    nb.adjoint(lower).value_and_grad(x, x.copy(), x.copy())
    assert add_to_triangle.signatures
    assert not any(isinstance(a, numba.types.Literal) for signature in add_to_triangle.signatures for a in signature)


def test_stored_callers_find_them(tmp_path):
    path = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    out, loaded, compiled, _ = run(tmp_path, PRODUCT, **path)
    assert loaded == 0 and compiled > 2
    assert run(tmp_path, PRODUCT, **path)[:3] == (out, compiled, 0)
    # Whatever is missing or damaged is compiled again, before its callers are loaded.
    for file in stored(tmp_path):
        whole = file.read_bytes()
        file.unlink()
        assert run(tmp_path, PRODUCT, **path)[:3:2] == (out, 1)
        file.write_bytes(b"damaged" + whole)
        assert run(tmp_path, PRODUCT, **path)[:3:2] == (out, 1)


def test_a_caller_of_another_routine_is_not_loaded():
    wanted = routines.required(compiled_product())
    assert wanted
    routines.provide(wanted)  # present already
    other = wanted[0]._replace(symbol="nbgrad.add_product.of-another-version")
    with pytest.raises(KeyError):
        routines.provide([other])


def test_numbas_own_cache_keeps_no_caller(tmp_path, monkeypatch):
    # In the process that would load it, the routines might be missing, which LLVM does not survive.
    path = tmp_path / "users_module.py"
    path.write_text(
        "import numba, numpy as np, nbgrad as nb\n\ndef f(a, b):\n    return np.sum(a @ b * b)\n\n"
        "x = np.eye(20)\npulled = nb.adjoint(f).compiled(x, x)\n\n"
        "@numba.njit(cache=True)\ndef slope(a, b):\n    g, h = np.zeros_like(a), np.zeros_like(b)\n"
        "    pulled(a, b, 1.0, g, h)\n    return np.sum(g)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import users_module

    x = np.eye(20) + 1.0
    with pytest.warns(numba.core.errors.NumbaWarning, match="Cannot cache"):
        found = users_module.slope(x, x)
    assert found == pytest.approx(np.sum(nb.adjoint(users_module.f).value_and_grad(x, x)[1][0]))
    assert not list(tmp_path.rglob("*.nbc"))


def test_python_calls_them_too():
    c, a = np.zeros((40, 40)), np.random.default_rng(0).normal(size=(40, 40))
    add_product(c, a, a, 2.0)
    np.testing.assert_allclose(c, 2 * a @ a)
    add_product(c[:0], a[:0], a, 1.0)
    add_product(c, a[:, :0], a[:0], 1.0)
    np.testing.assert_allclose(c, 2 * a @ a)

"""What NumPy gives views of and what it copies: writes after it, to either, are seen as in NumPy, or refused."""

import numpy as np
import pytest
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X, M = np.array([1.0, 2.0, 3.0, 4.0]), np.arange(16.0).reshape(4, 4) * 0.1 + 0.1
EXPRESSIONS = """\
np.flip(x); np.flip(m); np.fliplr(m); np.flipud(m); np.rot90(m); np.transpose(m); np.swapaxes(m, 0, 1)
np.moveaxis(m, 0, 1); np.squeeze(m[:1]); np.expand_dims(x, 0); np.atleast_1d(x); np.atleast_2d(x); np.ravel(m)
m.ravel(); m.flatten(); np.reshape(m, -1); m.reshape(16); np.diag(m); np.diag(x); np.real(x); x.real; x.conj()
np.conj(x); np.asarray(x); np.ascontiguousarray(x); np.array(x); np.copy(x); x.copy(); m.T; x.T; x.squeeze()
np.nan_to_num(x); np.sort(x); np.abs(x); np.positive(x); +x; x.astype(np.float64); np.where(x > 0, x, x)
np.roll(x, 1); np.tile(x, 1); np.repeat(x, 1); np.take(x, np.array([0, 1])); x[np.array([0, 1])]; x[x > 0]; x[:]; x[...]
x[::-1]; m[1]; m[:, 1]; m[None]; m[0][None]; x.flat[:]; np.round(x, 3); np.clip(x, 0, 9); np.minimum(x, x); x * 1; x**1
np.triu(m); np.concatenate((x,)); np.stack((x,)); np.vstack((x,)); np.hstack((x,)); np.cumsum(m[:, :1], 1)
np.partition(x, 1); np.einsum("i->i", x); np.einsum("ij->ji", m); np.einsum("ii->i", m)
np.einsum("ji", m); np.add(x, 0); np.dot(np.eye(4), x); x if m[0, 0] > -9 else x
sum([x]); sum((x,)); sum([x], 0.0); sum([], x); sum([x, m[0]]); np.add.reduce([x]); np.array([x])[0]"""
CASES = [
    (e.strip(), line) for part in EXPRESSIONS.splitlines() for e in part.split(";") for line in ("x += 1.0", "d += 1.0")
]

#: What is refused, with writes to the operand or the result; NumPy itself refuses writes to diagonals.
REFUSED = {
    *((e, w) for e in ('np.einsum("i->i", x)', 'np.einsum("ij->ji", m)', 'np.einsum("ii->i", m)', 'np.einsum("ji", m)',
                       "x if m[0, 0] > -9 else x")
      for w in ("x += 1.0", "d += 1.0")),
    ("np.diag(m)", "x += 1.0"),
}  # fmt: skip


@pytest.mark.parametrize("expression, written", CASES)
def test_writes(expression, written, tmp_path):
    path = tmp_path / "views.py"
    other = "m += 1.0" if written == "x += 1.0" else "pass"
    sums = "np.sum(d * np.arange(1.0, 1.0 + d.size).reshape(d.shape)) + np.sum(x * x) + np.sum(m * m)"
    body = [f"d = {expression}", written, other, f"return {sums}"]
    path.write_text("\n    ".join(["import numpy as np\n\ndef f(x, m):", *body]) + "\n", encoding="utf-8")
    names = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    expected, given = (X.copy(), M.copy()), (X.copy(), M.copy())
    try:
        value = names["f"](*expected)
    except ValueError as err:
        assert "read-only" in str(err)
        return
    with uncompiled():
        if (expression, written) in REFUSED:
            with pytest.raises(TraceError, match=r"stands for, too|may be written in place"):
                nb.adjoint(names["f"]).value_and_grad(*given)
            return
        found, _ = nb.adjoint(names["f"]).value_and_grad(*given)
    assert found == pytest.approx(value, rel=1e-12)
    for a, b in zip(given, expected, strict=True):
        np.testing.assert_array_equal(a, b)

"""What the tests of network operators share."""

import numpy as np

RTOL = {"float64": 1e-12, "float32": 2e-5, "float16": 5e-3}
DTYPES = list(RTOL)


def close(found, expected, dtype="float64"):
    assert found.dtype == np.dtype(dtype)
    tolerance = RTOL[dtype]
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=tolerance, atol=tolerance)

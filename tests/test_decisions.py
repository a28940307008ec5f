"""The index of decisions: one short test for each way in which we depart from MXNet, each named like a sentence.

It follows the table of docs/differences.md. The faults of MXNet 1.9 that no row is about are in test_mxnet_faults.
"""

import operator

import numpy as np
import pytest
from recording import marked, recorded, values

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.testing import check_grads

# Decisions: dtypes.


def test_an_array_of_a_numpy_array_keeps_its_dtype():
    for dtype in ("float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool"):
        assert nd.array(np.ones(2, dtype)).dtype is np.dtype(dtype).type


def test_python_numbers_and_lists_become_float32_unless_told_otherwise():
    assert nd.array(3).dtype is nd.array([1, 2]).dtype is nd.array([True, 2]).dtype is np.float32
    assert nd.array(True).dtype is nd.array([[True], [False]]).dtype is np.bool_
    assert nd.array([1, 2], dtype="int32").dtype is np.int32
    nb.set_default_dtype("float64")
    try:
        assert nd.array([1, 2]).dtype is np.float64
    finally:
        nb.set_default_dtype("float32")
    assert nd.array([1, 2]).dtype is np.float32


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ("float32", "float64", "float64"),
        ("float16", "float32", "float32"),
        ("int8", "int32", "int32"),
        ("uint8", "int8", "int16"),
        ("uint32", "int32", "int64"),
        ("int64", "float16", "float16"),
        ("bool", "float32", "float32"),
        ("bool", "int32", "int32"),
    ],
)
def test_mixed_dtypes_promote(first, second, result):
    x, y = nd.array(np.ones(2, first)), nd.array(np.ones(2, second))
    assert (x + y).dtype is (y + x).dtype is np.dtype(result).type


def test_python_scalars_take_the_arrays_dtype():
    assert (nd.array([1], dtype="float16") + 2.5).dtype is np.float16
    assert (nd.array([1], dtype="float64") * 2).dtype is np.float64
    assert (nd.array([1], dtype="int32") + 2).dtype is np.int32


def test_a_python_float_is_not_truncated_by_an_integer_array():
    y = nd.array([1, 2], dtype="int32") + 1.5
    assert y.dtype is np.float32 and values(y) == [2.5, 3.5]


def test_division_of_integers_is_true_division():
    x = nd.array([7, -7], dtype="int32")
    assert (x / 2).dtype is np.float32 and values(x / 2) == [3.5, -3.5]
    assert (x // 2).dtype is np.int32 and values(x // 2) == [3, -4]


# Decisions: arrays.


def test_arrays_without_axes_or_elements_work():
    scalar, empty = nd.array(3.0), nd.array(np.zeros((0, 3), "float32"))
    assert scalar.shape == (scalar * 2).shape == () and float(scalar * 2) == 6
    assert nd.exp(empty).shape == (0, 3) and nd.sum(empty, axis=0).shape == (3,)


def test_full_reductions_and_scalar_indexing_have_shape_1():
    x = nd.ones((2, 3))
    assert x.sum().shape == x.max().shape == nd.norm(x).shape == x[0, 0].shape == (1,)


def test_comparisons_give_ones_and_zeros_in_the_operands_dtype():
    for dtype in ("float64", "int32"):
        y = nd.array(np.array([1, 3], dtype)) > 2
        assert y.dtype is np.dtype(dtype).type and values(y) == [0, 1]


@pytest.mark.parametrize("wrap", [nd.array, np.asarray, np.ndarray.tolist, lambda m: nd.array(m.tolist())])
def test_an_array_of_bools_is_a_mask(wrap):
    x = nd.array([1, 2, 3])
    mask = wrap(np.array([True, False, True]))
    assert values(x[mask]) == [1, 3]
    x[mask] = 9
    assert values(x) == [9, 2, 9]


def test_the_operators_of_python_numbers_are_supported():
    x, y = nd.array([7.0, 8.0]), nd.array([2.0, 3.0])
    assert values(x // 2) == [3, 4] and values(x @ y) == [38]
    assert [values(v) for v in divmod(x, 3)] == [[2, 2], [1, 2]]
    assert float(x[0]) == 7.0 and int(x[1]) == 8 and operator.index(nd.array([5], dtype="int32")) == 5
    assert x[0].item() == 7.0 and x.tolist() == [7.0, 8.0] and np.array(x).tolist() == [7.0, 8.0]
    assert [1, 2, 3][nd.array([1], dtype="int32")] == 2
    a = np.array([1.0, 2.0], "float32")
    assert values(x + a) == values(a + x) == [8, 10] and isinstance(a + x, nb.NDArray)


def test_asscalar_of_an_array_of_one_element_is_a_scalar():
    assert nd.ones((1, 1)).asscalar() == 1 and np.ndim(nd.ones((1, 1)).asscalar()) == 0


def test_other_storage_types_do_not_exist():
    x = nd.ones((2,))
    assert x.stype == "default" and values(x.tostype("default")) == [1, 1]


# Decisions: gradients.


def test_grad_of_one_array_is_one_array():
    x = marked([1.0, 2.0])
    y = recorded(lambda: x * x)
    assert values(autograd.grad(y, x, retain_graph=True)) == [2, 4]
    (g,) = autograd.grad(y, [x])
    assert values(g) == [2, 4]


def test_the_documented_example_of_grad_works():
    x = marked([1.0])
    with autograd.record():
        z = nd.elemwise_add(nd.exp(x), x)
        dx = autograd.grad(z, x, create_graph=True)
    dx.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), [np.e])


def test_a_recorded_intermediate_has_a_gradient_in_grad():
    x = marked([2.0])
    with autograd.record():
        y = x * 3
        z = y * y
    assert values(autograd.grad(z, y)) == [12]


def test_an_array_that_is_neither_marked_nor_recorded_is_refused_in_grad():
    x = marked([2.0])
    y = recorded(lambda: x * x)
    with pytest.raises(nb.MXNetError, match="with respect to the 1-th variable because it does not require gradient"):
        autograd.grad(y, [nd.ones((1,))])


def test_grad_is_differentiable_in_its_head_gradient():
    x, h = marked([3.0]), marked([5.0])
    with autograd.record():
        g = autograd.grad(x * x, x, head_grads=h, create_graph=True)
    g.backward()
    assert values(x.grad) == [10] and values(h.grad) == [6]


def test_a_value_changed_after_it_was_recorded_is_an_error():
    x = marked([1.0, 2.0])
    y = recorded(nd.exp, x)
    y[:] = 0
    with pytest.raises(nb.NBGradError, match="exp"):
        y.backward()


def test_a_leaf_changed_after_it_was_recorded_is_an_error():
    x = marked([1.0, 2.0])
    y = recorded(lambda: x * x)
    x[:] = 10
    with pytest.raises(nb.NBGradError, match="mul"):
        y.backward()


def test_a_head_gradient_of_another_shape_is_an_error():
    x = marked([1.0, 2.0])
    y = recorded(lambda: x * x)
    with pytest.raises(nb.NBGradError, match="shape"):
        y.backward(nd.ones((3,)))
    with pytest.raises(nb.NBGradError, match="shape"):
        autograd.grad(y, x, head_grads=nd.ones((1,)))


def test_a_head_gradient_of_another_dtype_or_of_numpy_is_taken():
    x = marked([1.0, 2.0])
    for head in (nd.array([1, 10], dtype="float32"), np.array([1.0, 10.0]), np.array([1, 10])):
        recorded(lambda: x * x).backward(head)
        assert values(x.grad) == [2, 40]


def test_a_head_given_twice_counts_twice():
    x = marked([1.0])
    y = recorded(lambda: x * 2)
    autograd.backward([y, y])
    assert values(x.grad) == [4]


def test_a_variable_given_twice_has_its_gradient_twice():
    x = marked([1.0])
    y = recorded(lambda: x * x)
    assert [values(g) for g in autograd.grad(y, [x, x])] == [[2], [2]]


def test_mark_variables_takes_any_iterables():
    xs, gs = [nd.ones((2,)), nd.ones((3,))], [nd.zeros((2,)), nd.zeros((3,))]
    autograd.mark_variables(tuple(xs), iter(gs))
    autograd.backward([recorded(lambda x=x: x * 2) for x in xs])
    assert [values(g) for g in gs] == [[2, 2], [2, 2, 2]]


def test_a_head_gradient_of_another_type_is_an_error():
    x = marked([1.0, 2.0])
    y = recorded(lambda: x * x)
    for head in ("one", [1.0, 1.0], object()):
        with pytest.raises(TypeError, match="head gradient 0 must be an NDArray"):
            y.backward(head)


@pytest.mark.parametrize(
    ("buffers", "requests", "says"),
    [
        ([nd.zeros((2,))], "write", "numbers must be the same"),
        ([nd.zeros((2,)), nd.zeros((2,))], ["write"], "numbers must be the same"),
        ([nd.zeros((2,)), nd.zeros((3,))], "write", "shape"),
        ([nd.zeros((2,)), nd.zeros((2,), dtype="float64")], "write", "float64"),
    ],
)
def test_mark_variables_checks_numbers_shapes_and_dtypes_at_once(buffers, requests, says):
    xs = [nd.ones((2,)), nd.ones((2,))]
    with pytest.raises(nb.NBGradError, match=says):
        autograd.mark_variables(xs, buffers, requests)
    assert xs[0].grad is None


SCOPES = [autograd.record, autograd.pause, autograd.train_mode, autograd.predict_mode]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_restores_the_state_after_an_exception(scope):
    before = autograd.is_recording(), autograd.is_training()
    with pytest.raises(ZeroDivisionError), scope():
        raise ZeroDivisionError
    assert (autograd.is_recording(), autograd.is_training()) == before


@pytest.mark.parametrize("make", SCOPES)
def test_a_scope_may_be_entered_inside_itself(make):
    scope = make()
    with scope:
        inside = autograd.is_recording(), autograd.is_training()
        with scope:
            pass
        assert (autograd.is_recording(), autograd.is_training()) == inside
    assert (autograd.is_recording(), autograd.is_training()) == (False, False)


def test_a_scope_is_a_decorator():
    @autograd.record(train_mode=False)
    def state():
        return autograd.is_recording(), autograd.is_training()

    assert state() == state() == (True, False)
    assert not autograd.is_recording()


# Decisions: Function.


class Scale(autograd.Function):
    """x * factor, given the factor as a plain number."""

    def forward(self, x, factor):
        self.factor = factor
        return x * factor

    def backward(self, dy):
        return dy * self.factor


def with_backward(result):
    """The identity with a backward that returns, or raises, `result`."""

    class Given(autograd.Function):
        def forward(self, *xs):
            return xs[0] * 1

        def backward(self, dy):
            if isinstance(result, Exception):
                raise result
            return result(dy)

    return Given()


def test_an_instance_of_function_is_called_once():
    f = Scale()
    f(nd.ones((1,)), 2)
    with pytest.raises(AssertionError, match="Each Function instance can only be called once"):
        f(nd.ones((1,)), 2)


def test_function_takes_arguments_that_are_no_arrays():
    x = marked([1.0])
    recorded(Scale(), x, 3).backward()
    assert values(x.grad) == [3]


def test_none_is_a_zero_gradient_in_function():
    x, y = marked([1.0]), marked([1.0])
    recorded(with_backward(lambda dy: (None, dy)), x, y).backward()
    assert values(x.grad) == [0] and values(y.grad) == [1]


def test_function_honours_add():
    x = marked([1.0], "add")
    for _ in range(2):
        recorded(Scale(), x, 3).backward()
    assert values(x.grad) == [6]


def test_an_exception_in_a_backward_of_function_keeps_its_type_and_traceback():
    x = marked([1.0])
    y = recorded(with_backward(KeyError("mine")), x)
    with pytest.raises(KeyError, match="mine") as caught:
        y.backward()
    assert caught.traceback[-1].path.name == "test_decisions.py"


def test_an_exception_in_a_forward_of_function_leaves_recording_on():
    class Fails(autograd.Function):
        def forward(self, x):
            raise KeyError("mine")

    with autograd.record():
        with pytest.raises(KeyError, match="mine"):
            Fails()(marked([1.0]))
        assert autograd.is_recording()


def test_a_wrong_number_of_gradients_from_function_says_what_and_how_many():
    y = recorded(with_backward(lambda dy: (dy, dy, dy)), marked([1.0]), marked([1.0]))
    with pytest.raises(nb.NBGradError, match=r"Given.*3.*2|Given.*2.*3"):
        y.backward()


def test_a_gradient_of_the_wrong_shape_from_function_is_an_error():
    y = recorded(with_backward(lambda dy: nd.ones((5,))), marked([1.0]))
    with pytest.raises(nb.NBGradError, match=r"Given.*\(5,\)"):
        y.backward()


def test_a_subclass_of_function_need_not_call_the_initialiser_of_its_base():
    class Own(Scale):
        def __init__(self):
            pass

    assert values(Own()(nd.ones((1,)), 2)) == [2]


def test_function_is_differentiable_to_any_order():
    class Cube(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return x * x * x

        def backward(self, dy):
            (x,) = self.saved_tensors
            return dy * 3 * x * x

    check_grads(lambda x: Cube()(nd.sin(x)), [[0.4, 0.7]], order=3)


# Decisions: operators.


def test_every_differentiable_operator_has_every_order():
    x = marked([0.5])
    with autograd.record():
        y = x * x * x
        for _ in range(3):
            y = autograd.grad(y, x, create_graph=True)
    assert values(y) == [6]  # the registry is checked in test_operators, MXNet's list in test_second_order


def test_running_statistics_move_in_the_forward_of_training_once():
    data = nd.array([[1.0], [3.0]])
    gamma, beta, mean, var = (nd.array([v]) for v in (2.0, 0.0, 0.0, 1.0))
    for v in (data, gamma, beta):
        v.attach_grad()
    with autograd.record():
        y = nd.BatchNorm(data, gamma, beta, mean, var, momentum=0.5)
    assert values(mean) == [1]
    y.backward(retain_graph=True)
    y.backward()
    assert values(mean) == [1] and values(var) == [1]
    nd.BatchNorm(data, gamma, beta, mean, var, momentum=0.5)
    assert values(mean) == [1]


def test_fix_gamma_never_writes_to_gamma():
    data, gamma, beta = marked([[1.0], [3.0]]), marked([2.0]), marked([0.0])
    rest = nd.zeros((1,), dtype="float64"), nd.ones((1,), dtype="float64")
    recorded(lambda: nd.BatchNorm(data, gamma, beta, *rest)).backward()
    assert values(gamma) == [2] and values(gamma.grad) == [0]


def test_dropout_of_everything_gives_zeros():
    x = marked([1.0, 2.0])
    y = recorded(lambda: nd.Dropout(x, p=1))
    y.backward()
    assert values(y) == [0, 0] and values(x.grad) == [0, 0]


def test_an_unknown_keyword_is_refused_and_the_known_ones_are_named():
    for f, known in ((nd.sum, "keepdims"), (nd.Convolution, "num_filter"), (nd.exp, "exp")):
        with pytest.raises(TypeError, match=known):
            f(nd.ones((1, 1, 1)), kernal=3)


def test_division_of_integers_by_zero_does_not_kill_the_process():
    x, zero = nd.array([7, 0], dtype="int32"), nd.array([0, 0], dtype="int32")
    with np.errstate(all="ignore"):
        assert values(x // zero) == [0, 0] and values(x % zero) == [0, 0]
        assert np.isinf((x / zero).asnumpy()[0]) and np.isnan((x / zero).asnumpy()[1])


def test_a_float_modulo_zero_is_nan():
    assert np.isnan((nd.array([7.0]) % 0).asnumpy()).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: nd.dot(nd.ones((2, 3)), nd.ones((2, 3))),
        lambda: nd.ones((2,)) + nd.ones((3,)),
        lambda: nd.take(nd.ones((2,)), nd.array([5]), mode="raise"),
        lambda: nd.random.uniform(2, 1),
    ],
)
def test_errors_are_raised_at_the_call(call):
    with pytest.raises((nb.NBGradError, ValueError, IndexError)):
        call()


def test_every_tied_element_has_the_whole_gradient_of_max_and_min():
    for f in (nd.max, nd.min):
        x = marked([2.0, 2.0])
        recorded(f, x).backward()
        assert values(x.grad) == [1, 1]


def test_the_gradient_of_prod_with_zeros_is_the_product_of_the_others():
    x = marked([0.0, 2.0, 3.0])
    recorded(nd.prod, x).backward()
    assert values(x.grad) == [6, 0, 0]


def test_the_gradient_of_the_zeroth_power_at_zero_is_zero():
    x = marked([0.0])
    recorded(lambda: x**0).backward()
    assert values(x.grad) == [0]


def test_the_gradient_of_norm_at_zero_is_zero():
    x = marked([0.0, 0.0])
    recorded(nd.norm, x).backward()
    assert values(x.grad) == [0, 0]


def test_sort_is_differentiable_on_its_default_axis():
    x = marked([[3.0, 1.0, 2.0]])
    recorded(nd.sort, x).backward(nd.array([[1, 10, 100]]))
    assert values(x.grad) == [[100, 1, 10]]


def test_khatri_rao_is_differentiable():
    check_grads(nd.khatri_rao, [[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]])

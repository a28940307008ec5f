"""The data sets that come with the package."""

import doctest

import numpy as np

import nbgrad.data
from nbgrad.data import load_digits, load_lynx_hare


def test_digits_are_images_in_the_unit_range_with_ten_labels():
    images, labels = load_digits()
    assert images.shape == (1797, 8, 8) and images.dtype == np.float32
    assert labels.shape == (1797,) and labels.dtype == np.int32
    assert images.flags.c_contiguous and labels.flags.c_contiguous
    assert images.min() == 0 and images.max() == 1
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_keep_the_order_of_the_source():
    images, labels = load_digits()
    assert (images[0, :2] * 16).tolist() == [[0, 0, 5, 13, 9, 1, 0, 0], [0, 0, 13, 15, 10, 15, 5, 0]]
    assert labels[:10].tolist() == list(range(10))
    assert labels[-3:].tolist() == [8, 9, 8]
    assert (images * 16).sum(dtype=np.float64) == 561718


def test_lynx_and_hare_cover_1900_to_1920():
    year, lynx, hare = load_lynx_hare()
    assert year.dtype.kind == "i" and lynx.dtype == hare.dtype == np.float64
    assert year.tolist() == list(range(1900, 1921))
    assert (lynx[0], hare[0]) == (4.0, 30.0) and (lynx[-1], hare[-1]) == (8.6, 24.7)
    assert (lynx > 0).all() and (hare > 0).all()


def test_callers_own_what_they_loaded():
    load_digits()[0][:] = 7
    load_lynx_hare()[1][:] = 7
    assert load_digits()[0].max() == 1 and load_lynx_hare()[1][0] == 4.0


def test_the_examples_run():
    result = doctest.testmod(nbgrad.data)
    assert result.attempted and not result.failed

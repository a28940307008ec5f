"""First half of the demonstration: a small convolutional network that reads handwritten digits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from .. import autograd, nd, random
from ..arrays.ndarray import NDArray
from ..data import load_digits

__all__ = ["Digits", "Network", "train"]

HELD_OUT = 450


class Network:
    """Two blocks of convolution, batch normalisation, ReLU and pooling; dropout; a dense layer.

    Parameters
    ----------
    classes : int
    """

    def __init__(self, classes: int = 10) -> None:
        self.weights: dict[str, NDArray] = {}
        self.statistics: dict[str, NDArray] = {}
        for name, channels, filters in (("conv1", 1, 24), ("conv2", 24, 48)):
            self.weights[f"{name}_w"] = _initial((filters, channels, 3, 3), channels * 9)
            self.weights[f"{name}_gamma"] = nd.ones(filters)
            self.weights[f"{name}_beta"] = nd.zeros(filters)
            self.statistics[f"{name}_mean"] = nd.zeros(filters)
            self.statistics[f"{name}_var"] = nd.ones(filters)
        self.weights["dense_w"] = _initial((classes, 48 * 4), 48 * 4)
        self.weights["dense_b"] = nd.zeros(classes)
        for w in self.weights.values():
            w.attach_grad()

    def __call__(self, images: NDArray) -> NDArray:
        """Class scores (n, classes) of images (n, 1, 8, 8)."""
        w, s = self.weights, self.statistics
        x = images
        for name in ("conv1", "conv2"):
            x = nd.Convolution(
                x, w[f"{name}_w"], kernel=(3, 3), pad=(1, 1), num_filter=len(w[f"{name}_w"]), no_bias=True
            )
            x = nd.BatchNorm(
                x, w[f"{name}_gamma"], w[f"{name}_beta"], s[f"{name}_mean"], s[f"{name}_var"], fix_gamma=False
            )
            x = nd.Pooling(nd.relu(x), kernel=(2, 2), stride=(2, 2), pool_type="max")
        x = nd.Dropout(nd.flatten(x), p=0.3)
        return nd.FullyConnected(x, w["dense_w"], w["dense_b"], num_hidden=len(w["dense_b"]))


def _initial(shape: tuple[int, ...], inputs: int) -> NDArray:
    return nd.random.normal(0.0, (2.0 / inputs) ** 0.5, shape=shape)


class _Adam:
    """The optimizer's state: two moments per weight, and the number of steps."""

    def __init__(self, weights: Iterable[NDArray]) -> None:
        self.slots = [(w, nd.zeros_like(w), nd.zeros_like(w)) for w in weights]
        self.steps = 0

    def step(self, rate: float, batch: int) -> None:
        self.steps += 1
        corrected = rate * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps)
        for w, mean, var in self.slots:
            nd.adam_update(w, w.grad, mean, var, lr=corrected, rescale_grad=1.0 / batch, out=w)


class Digits(NamedTuple):
    """What training gave: the loss per epoch, accuracies per epoch, and predictions for the held-out images."""

    losses: list[float]
    accuracies: list[float]
    images: np.ndarray
    labels: np.ndarray
    predictions: np.ndarray

    @property
    def accuracy(self) -> float:
        """Share of the held-out images that were read right."""
        return float(np.mean(self.predictions == self.labels))


def _batches(count: int, size: int) -> Iterator[np.ndarray]:
    order = nd.random.shuffle(nd.arange(count, dtype="int64")).asnumpy()
    for start in range(0, count - size + 1, size):
        yield order[start : start + size]


def train(epochs: int = 15, batch: int = 64, progress: Callable = iter, seed: int = 1) -> Digits:
    """Train on 1,347 of the 1,797 images and test on the other 450.

    Parameters
    ----------
    epochs, batch : int
    progress : callable
        Wraps the range of epochs; ``tqdm`` shows a bar.
    seed : int
    """
    random.seed(seed)
    images, labels = load_digits()
    order = np.random.default_rng(0).permutation(len(images))
    test, rest = order[:HELD_OUT], order[HELD_OUT:]
    x, y = nd.array(images[:, None]), nd.array(labels.astype(np.float32))
    network = Network()
    optimizer = _Adam(network.weights.values())
    losses, accuracies = [], []

    def predict() -> np.ndarray:
        return nd.argmax(network(x[test]), axis=1).asnumpy().astype(int)

    for epoch in progress(range(epochs)):
        total = 0.0
        batches = list(_batches(len(rest), batch))
        for chosen in batches:
            picked = rest[chosen]
            with autograd.record():
                loss = nd.softmax_cross_entropy(network(x[picked]), y[picked])
            loss.backward()
            optimizer.step(0.004 * 0.5 * (1 + np.cos(np.pi * epoch / epochs)), batch)
            total += float(loss)
        losses.append(total / (len(batches) * batch))
        accuracies.append(float(np.mean(predict() == labels[test])))
    return Digits(losses, accuracies, images[test], labels[test], predict())

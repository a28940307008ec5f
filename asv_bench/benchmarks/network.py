"""One training step of a small convolutional network: convolution, normalisation, pooling, two dense layers."""

import numpy as np

from nbgrad import autograd, nd


class ConvNet:
    """Batches of 64 images of 8 by 8 pixels, as the demonstration's."""

    def setup(self):
        rng = np.random.default_rng(0)

        def weight(*shape):
            return nd.array(rng.normal(0, 0.1, shape), dtype="float32")

        self.images = nd.array(rng.uniform(0, 1, (64, 1, 8, 8)), dtype="float32")
        self.labels = nd.array(rng.integers(0, 10, 64), dtype="float32")
        self.running = nd.zeros((16,)), nd.ones((16,))
        self.parameters = [
            weight(16, 1, 3, 3), nd.zeros((16,)), nd.ones((16,)), nd.zeros((16,)),
            weight(64, 16 * 4 * 4), nd.zeros((64,)), weight(10, 64), nd.zeros((10,)),
        ]  # fmt: skip
        for p in self.parameters:
            p.attach_grad()
        self.time_step()

    def loss(self):
        w, b, gamma, beta, w1, b1, w2, b2 = self.parameters
        y = nd.Convolution(self.images, w, b, kernel=(3, 3), pad=(1, 1), num_filter=16)
        y = nd.BatchNorm(y, gamma, beta, *self.running, fix_gamma=False)
        y = nd.Pooling(nd.relu(y), kernel=(2, 2), stride=(2, 2), pool_type="max")
        y = nd.relu(nd.FullyConnected(y, w1, b1, num_hidden=64))
        return nd.softmax_cross_entropy(nd.FullyConnected(y, w2, b2, num_hidden=10), self.labels)

    def time_predict(self):
        self.loss()

    def time_step(self):
        with autograd.record():
            loss = self.loss()
        loss.backward()
        for p in self.parameters:
            nd.sgd_update(p, p.grad, lr=1e-4, out=p)

    def peakmem_step(self):
        self.time_step()

"""Private networks in their own environment: DP-SGD with Opacus, and noisy gradients that are projected onto their own batch.

Both train the same small network (one hidden layer, clipped targets scaled to [0, 1]) on the same numbers. Their settings were chosen by hand by
test error on one other seed of two data sets: twelve were tried for DP-SGD (Adam's steps did best on both together), eight for the projection.
"""

import math
import warnings
from functools import partial

import numpy as np
import torch
from opacus import PrivacyEngine
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from serving import serve
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def dp_sgd(train, labels, test, bounds, epsilons, delta, seed, epochs=10, batch=1000, rate=0.005, hidden=16, clip=1.0):
    """Predictions for `test`, a row for each ε. Features and labels are protected, with (ε, δ)."""
    x, z, y = _tensors(train, test, labels, bounds)
    found = []
    for epsilon in epsilons:
        torch.manual_seed(seed)
        model = _network(x.shape[1], hidden)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        loader = DataLoader(TensorDataset(x, y), batch_size=batch)
        model, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            target_epsilon=float(epsilon),
            target_delta=delta,
            epochs=epochs,
            max_grad_norm=clip,
        )
        for _ in range(epochs):
            for rows, targets in loader:
                if len(rows):
                    optimizer.zero_grad()
                    nn.functional.mse_loss(model(rows)[:, 0], targets).backward()
                    optimizer.step()
        with torch.no_grad():
            found.append(_unscaled(model(z)[:, 0], bounds))
    return {"predictions": np.array(found)}


def projected(train, labels, test, bounds, epsilons, delta, seed, epochs=3, batch=500, rate=1.0, hidden=8, clip=1.0):
    """The same for labels alone, with public features: noisy gradients are projected onto those that labels within the bounds can give.

    The projection is onto the gradients of the same batch, and the noise is calibrated without amplification by sampling. It is not
    LabelDP-Pro (ICLR 2024), and its figures say nothing about that method.

    An epoch goes through disjoint batches, so that a label counts once in it. Replacing one moves its gradient by at most
    `clip`, and all epochs together are one Gaussian mechanism of √epochs times that sensitivity.
    """
    x, z, y = _tensors(train, test, labels, bounds)
    found = []
    for epsilon in epsilons:
        torch.manual_seed(seed)
        model = _network(x.shape[1], hidden)
        weights = {name: value.detach().clone() for name, value in model.named_parameters()}
        scale = _gaussian_scale(float(epsilon), delta) * clip * math.sqrt(epochs)
        output = partial(_output, model)
        slopes = vmap(grad(output), in_dims=(None, 0))
        for _ in range(epochs):
            order = torch.randperm(len(x))
            for start in range(0, len(x), batch):
                rows = order[start : start + batch]
                parts = slopes(weights, x[rows])
                jacobian = torch.cat([part.reshape(len(rows), -1) for part in parts.values()], dim=1)
                # Targets lie in [0, 1], so that a label moves its gradient by at most the length of its slope.
                jacobian *= torch.clamp(clip / jacobian.norm(dim=1, keepdim=True), max=1.0)
                outputs = vmap(output, in_dims=(None, 0))(weights, x[rows])
                noisy = jacobian.T @ (outputs - y[rows]) + scale * torch.randn(jacobian.shape[1])
                step = jacobian.T @ _feasible(jacobian, outputs, noisy) / len(rows)
                place = 0
                for name, value in weights.items():
                    size = value.numel()
                    weights[name] = value - rate * step[place : place + size].reshape(value.shape)
                    place += size
        with torch.no_grad():
            found.append(_unscaled(vmap(output, in_dims=(None, 0))(weights, z), bounds))
    return {"predictions": np.array(found)}


def _output(model, weights, row):
    return functional_call(model, weights, (row[None],))[0, 0]


def _feasible(jacobian, outputs, noisy, rounds=60):
    """Residuals of targets within [0, 1] whose gradient is nearest to the noisy one, by accelerated projected gradients."""
    kernel, wanted = jacobian @ jacobian.T, jacobian @ noisy
    largest = torch.linalg.eigvalsh(kernel)[-1] if len(kernel) <= 300 else kernel.norm()
    low, high = outputs - 1, outputs
    now = past = torch.clamp(outputs - 0.5, low, high)
    for number in range(rounds):
        ahead = now + number / (number + 3) * (now - past)
        past, now = now, torch.clamp(ahead - (kernel @ ahead - wanted) / largest, low, high)
    return now


def _network(size, hidden):
    model = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, 1))
    nn.init.constant_(model[-1].bias, 0.1)
    return model


def _tensors(train, test, labels, bounds):
    lower, upper = bounds
    scaled = (np.clip(labels, lower, upper) - lower) / (upper - lower)
    return tuple(torch.tensor(values, dtype=torch.float32) for values in (train, test, scaled))


def _unscaled(outputs, bounds):
    lower, upper = bounds
    return np.clip(lower + (upper - lower) * outputs.numpy().astype(np.float64), lower, upper)


def _gaussian_scale(epsilon, delta):
    """The least σ of Gaussian noise that is (ε, δ)-DP for a sensitivity of 1 (Balle and Wang 2018, Theorem 8)."""

    def excess(scale):
        first, second = 1 / (2 * scale), epsilon * scale
        return ndtr(first - second) - math.exp(min(0.0, epsilon + log_ndtr(-first - second))) - delta

    return brentq(excess, 1e-3, 1e6)


serve({"dp_sgd": dp_sgd, "projected": projected}, ["opacus", "torch", "numpy"])

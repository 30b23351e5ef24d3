"""How fast the network trains, beside the same network fed by a plain torch DataLoader. Run: python benchmarks/network.py

Three programs train the same network from the same start with the same rule, turn by turn, one epoch each:

- labeldp:      `labeldp.paper.network.trainer`, as `NetworkRegressor` uses it;
- plain torch:  modules, autograd, torch.optim.RMSprop, fed by DataLoader(TensorDataset(...), 8192, shuffle=True);
- our steps:    labeldp's steps fed by that DataLoader, so that feeding alone makes the difference.

Each program's speed is that of its fastest epoch, which is the one least disturbed by others on the machine.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from labeldp.paper.network.trainer import Examples, Settings, Trainer

BATCH = 8192
SHAPES = {  # vocabularies and numbers of the paper's two public tasks
    "criteo": ((10, 5, 200, 12, 4000, 25, 160, 600, 1000, 500, 70, 5, 20, 60_000, 50_000, 300, 40_000, 8), 3),
    "census": ((3, 7, 101, 3, 5, 1001, 1001), 1),
}


class Labeldp:
    name = "labeldp"

    def __init__(self, shape, data, epochs):
        self.trainer, self.examples = start(shape, data, epochs)
        self.shuffle = torch.Generator().manual_seed(0)

    def epoch(self):
        rows = len(self.examples.targets)
        with self.trainer as trainer:
            order = torch.randperm(rows, generator=self.shuffle)
            return sum(trainer.step(self.examples, batch) for batch in order.split(BATCH)) / rows


class OurSteps(Labeldp):
    name = "our steps, DataLoader"

    def epoch(self):
        examples = self.examples
        loader = DataLoader(
            TensorDataset(examples.codes, examples.numeric, examples.targets), batch_size=BATCH, shuffle=True
        )
        with self.trainer as trainer:
            total = sum(trainer.step(Examples(*batch), torch.arange(len(batch[0]))) for batch in loader)
        return total / len(examples.targets)


class PlainTorch:
    name = "plain torch, DataLoader"

    def __init__(self, shape, data, epochs):
        trainer, self.examples = start(shape, data, epochs)
        self.scale = trainer.scale
        embedding = torch.nn.Embedding.from_pretrained(trainer.table, freeze=False)
        layers = []
        for kernel, bias in zip(trainer.parameters.kernels, trainer.parameters.biases, strict=True):
            linear = torch.nn.Linear(*kernel.shape)
            linear.weight.data, linear.bias.data = kernel.t().clone(), bias.clone()
            layers += [linear, torch.nn.ReLU()]
        self.embedding, self.dense = embedding, torch.nn.Sequential(*layers[:-1])
        kernels = [p for p in self.dense.parameters() if p.ndim == 2]
        others = [p for p in self.dense.parameters() if p.ndim == 1]
        # torch's weight_decay w adds w·p to the gradient; the loss's λ·p² adds 2λ·p. The loss here is in units of scale².
        groups = [
            {"params": kernels, "weight_decay": 2 * trainer.settings.l2 / self.scale**2},
            {"params": [*others, *embedding.parameters()]},
        ]
        self.optimizer = torch.optim.RMSprop(
            groups, lr=trainer.settings.learning_rate, alpha=0.9, eps=1e-7 / self.scale**2
        )
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, trainer.steps)

    def epoch(self):
        examples, total = self.examples, 0.0
        loader = DataLoader(
            TensorDataset(examples.codes, examples.numeric, examples.targets), batch_size=BATCH, shuffle=True
        )
        for codes, numeric, targets in loader:
            values = self.dense(torch.cat([self.embedding(codes).flatten(1), numeric], 1)).squeeze(1)
            loss = torch.nn.functional.mse_loss(values, targets)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            total += loss.item() * len(targets)
        return total / len(examples.targets) * self.scale**2


def start(shape, data, epochs):
    sizes, numeric = shape
    trainer = Trainer(sizes, numeric, Settings(epochs=epochs), math.ceil(len(data[2]) / BATCH) * epochs)
    return trainer, trainer.examples(*data)


def generate(shape, rows, seed=0):
    """Skewed categories with effects of their own, skewed numbers, labels from 0 to 400."""
    sizes, numeric = shape
    rng = np.random.default_rng(seed)
    codes = np.empty((rows, len(sizes)), np.int32)
    signal = np.zeros(rows)
    for j, size in enumerate(sizes):
        codes[:, j] = size * rng.random(rows) ** 3
        signal += rng.normal(size=size)[codes[:, j]]
    inputs = rng.normal(size=(rows, numeric)).astype(np.float32)
    signal = (signal - signal.mean()) / signal.std() + inputs[:, 0]
    return codes, inputs, np.clip(np.exp(4.3 + 0.8 * signal + 0.3 * rng.normal(size=rows)), 0, 400)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=24 * BATCH)
    arguments.add_argument("--epochs", type=int, default=6)
    options = arguments.parse_args()
    for name, shape in SHAPES.items():
        data = generate(shape, options.rows)
        programs = [program(shape, data, options.epochs) for program in (Labeldp, PlainTorch, OurSteps)]
        fastest = {program.name: 0.0 for program in programs}
        losses = {}
        for _ in range(options.epochs):
            for program in programs:
                began = time.perf_counter()
                losses[program.name] = program.epoch()
                fastest[program.name] = max(fastest[program.name], options.rows / (time.perf_counter() - began))
        print(
            f"{name}: {options.rows:,} rows, {len(shape[0])} categorical and {shape[1]} numeric columns, "
            f"{sum(shape[0]):,} embeddings, batch {BATCH}, label variance {np.var(data[2]):,.0f}"
        )
        for program, speed in fastest.items():
            print(
                f"  {program:24s} {speed:10,.0f} rows/s   labeldp is {fastest['labeldp'] / speed:5.2f}× as fast   "
                f"loss after {options.epochs} epochs {losses[program]:9,.1f}"
            )


if __name__ == "__main__":
    main()

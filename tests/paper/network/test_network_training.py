"""Training against plain torch: autograd for gradients, torch's own optimisers for the steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from labeldp.paper.network.trainer import Settings, Trainer, embedding_offsets, train  # noqa: E402
from labeldp.paper.network.weights import mean_loss  # noqa: E402

SIZES = (40, 3, 700)


@pytest.fixture(autouse=True)
def _one_torch_thread():
    """Torch's threads spin while they wait, which is slow beside another test process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def records(rows, seed=0, sizes=SIZES, numeric=2):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in sizes], 1) if sizes else np.empty((rows, 0))
    codes = codes.astype(np.int32)
    inputs = rng.normal(size=(rows, numeric)).astype(np.float32)
    effect = codes[:, 0] % 5 if sizes else 0
    return codes, inputs, rng.poisson(3 + effect + (inputs[:, 0] > 0 if numeric else 0)).astype(float)


def plain_torch(codes, inputs, targets, weights, settings):
    """The same network and rule in the way of a torch tutorial: autograd, dense RMSProp; Adam with SparseAdam."""
    steps = settings.epochs * math.ceil(len(targets) / settings.batch_size)
    trainer = Trainer(SIZES, inputs.shape[1], settings, steps)
    squared = settings.loss == "squared"
    mean = np.average(targets, weights=weights)
    center = mean if squared else 0.0
    scale = math.sqrt(np.average((targets - mean) ** 2, weights=weights)) if squared else 1.0
    if not squared:
        trainer.parameters.biases[-1].fill_(math.log(mean))
    table = trainer.table.clone().requires_grad_()
    kernels = [kernel.clone().requires_grad_() for kernel in trainer.parameters.kernels]
    biases = [bias.clone().requires_grad_() for bias in trainer.parameters.biases]
    rate, dense = settings.learning_rate, [*kernels, *biases]
    if settings.optimizer == "rmsprop":
        optimizers = [torch.optim.RMSprop([*dense, table], lr=rate, alpha=0.9, eps=1e-7)]
    else:
        optimizers = [torch.optim.Adam(dense, lr=rate, eps=1e-7), torch.optim.SparseAdam([table], lr=rate, eps=1e-7)]
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps) for optimizer in optimizers]
    rows = torch.from_numpy((codes + embedding_offsets(SIZES)).astype(np.int64))
    factors = torch.ones(len(targets)) if weights is None else torch.from_numpy(weights / weights.mean()).float()
    shuffle = torch.Generator().manual_seed(settings.seed)
    labels, numbers, curve = torch.from_numpy(targets).float(), torch.from_numpy(inputs), []
    for _ in range(settings.epochs):
        total = 0.0
        for batch in torch.randperm(len(targets), generator=shuffle).split(settings.batch_size):
            sparse = settings.optimizer == "adam"
            looked_up = torch.nn.functional.embedding(rows[batch], table, sparse=sparse)
            values = torch.cat([looked_up.flatten(1), numbers[batch]], 1)
            for layer, (kernel, bias) in enumerate(zip(kernels, biases, strict=True)):
                values = (values.relu() if layer else values) @ kernel + bias
            values = center + scale * values[:, 0]
            losses = (values - labels[batch]) ** 2 if squared else values.exp() - labels[batch] * values
            loss = (losses * factors[batch]).mean()
            penalized = loss + settings.l2 * sum((kernel**2).sum() for kernel in kernels)
            for optimizer in optimizers:
                optimizer.zero_grad()
            penalized.backward()
            for optimizer, schedule in zip(optimizers, schedules, strict=True):
                optimizer.step()
                schedule.step()
            total += loss.item() * len(batch)
        curve.append(total / len(targets))
    return curve, table.detach().numpy(), [kernel.detach().numpy() for kernel in kernels]


@pytest.mark.filterwarnings("ignore")  # torch's own about sparse gradients and schedulers
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("loss", "optimizer"), [("squared", "rmsprop"), ("poisson", "adam"), ("poisson", "rmsprop")])
def test_training_is_that_of_plain_torch(loss, optimizer, weighted):
    codes, inputs, targets = records(2500)
    weights = np.random.default_rng(1).gamma(2, 1, 2500) if weighted else None
    # A large L2 weight, so that leaving it out would show; 700 categories in batches of 300, so that rows stay away.
    settings = Settings(loss=loss, optimizer=optimizer, epochs=3, batch_size=300, l2=0.01, hidden=(16, 8))
    curve, table, kernels = plain_torch(codes, inputs, targets, weights, settings)
    ours = []
    trained = train(
        codes,
        inputs,
        targets,
        sizes=SIZES,
        settings=settings,
        weights=weights,
        after_epoch=lambda loss, _: ours.append(loss),
    )
    np.testing.assert_allclose(ours, curve, rtol=1e-4)
    seen = np.unique(codes + embedding_offsets(SIZES))
    np.testing.assert_allclose(trained.embeddings[seen], table[seen], atol=2e-4)
    for mine, theirs in zip(trained.kernels, kernels, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-4)


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_the_number_of_threads_changes_nothing(optimizer):
    codes, inputs, targets = records(7000)
    first, second = (
        train(
            codes,
            inputs,
            targets,
            sizes=SIZES,
            settings=Settings(optimizer=optimizer, epochs=2, batch_size=3000, hidden=(16, 8), threads=threads),
        )
        for threads in (1, 3)
    )
    np.testing.assert_array_equal(first.embeddings, second.embeddings)
    for one, other in zip(first.kernels, second.kernels, strict=True):
        np.testing.assert_array_equal(one, other)


def test_torch_keeps_its_number_of_threads():
    torch.set_num_threads(2)
    codes, inputs, targets = records(50)
    train(codes, inputs, targets, sizes=SIZES, settings=Settings(epochs=1))
    assert torch.get_num_threads() == 2


def test_a_weight_of_two_is_a_record_twice():
    codes, inputs, targets = records(300)
    weights = np.random.default_rng(2).integers(1, 4, 300)
    twice = np.repeat(np.arange(300), weights)
    settings = Settings(epochs=20, hidden=(16, 8), batch_size=10_000)
    one = train(codes, inputs, targets, sizes=SIZES, settings=settings, weights=weights)
    other = train(codes[twice], inputs[twice], targets[twice], sizes=SIZES, settings=settings)
    np.testing.assert_allclose(one.predict(codes, inputs), other.predict(codes, inputs), rtol=1e-3)


@pytest.mark.parametrize(("sizes", "numeric"), [((), 2), (SIZES, 0)])
@pytest.mark.parametrize("hidden", [(), (8,), (16, 8, 4)])
def test_any_shape_of_network_learns(sizes, numeric, hidden):
    codes, inputs, targets = records(2000, sizes=sizes, numeric=numeric)
    settings = Settings(epochs=30, batch_size=256, hidden=hidden, learning_rate=0.01)
    trained = train(codes, inputs, targets, sizes=sizes, settings=settings)
    assert mean_loss("squared", trained.predict(codes, inputs), targets) < 0.99 * np.var(targets)
    assert len(trained.kernels) == len(hidden) + 1


def test_predictions_are_those_that_the_last_loss_was_taken_on():
    codes, inputs, targets = records(1500)
    losses = []
    settings = Settings(epochs=3, batch_size=1500, hidden=(16, 8))
    networks = []

    def after_epoch(loss, weights):
        losses.append(loss)
        networks.append(weights())
        return False

    train(codes, inputs, targets, sizes=SIZES, settings=settings, after_epoch=after_epoch)
    for network, later in zip(networks, losses[1:], strict=False):
        assert mean_loss("squared", network.predict(codes, inputs), targets) == pytest.approx(later, rel=1e-4)


def test_a_category_never_trained_gets_the_mean_vector():
    codes, inputs, targets = records(500, sizes=(6,))
    codes = np.maximum(codes, 1)
    trained = train(codes, inputs, targets, sizes=(6,), settings=Settings(epochs=5))
    counts = np.bincount(codes[:, 0], minlength=6)
    np.testing.assert_allclose(trained.embeddings[0], counts @ trained.embeddings / 500, rtol=1e-5, atol=1e-7)


def test_a_far_offset_of_the_targets_does_no_harm():
    codes, inputs, targets = records(1500)
    settings = Settings(epochs=15, batch_size=256, hidden=(16, 8), learning_rate=0.01)
    near = train(codes, inputs, targets, sizes=SIZES, settings=settings).predict(codes, inputs)
    far = train(codes, inputs, targets + 1e9, sizes=SIZES, settings=settings).predict(codes, inputs)
    np.testing.assert_allclose(far - 1e9, near, atol=1e-3)
    assert np.corrcoef(near, targets)[0, 1] > 0.5

"""How long to train the network on noisy labels."""

import math


def network_settings(records: int, share: float = 1.0, batch_size: int = 8192) -> dict[str, int]:
    """Parameters of `NetworkRegressor` for training on `records` values, each worth `share` of a true label.

    The network first learns what many records have in common, then memorises single records. 3·∛(records · share) steps end
    between the two. They are rounded up to whole epochs.
    """
    steps = 3 * max(records * share, 1.0) ** (1 / 3)
    return {"epochs": math.ceil(steps / math.ceil(max(records, 1) / batch_size))}

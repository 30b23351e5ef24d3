"""How long to train the network on noisy labels."""

from __future__ import annotations

import math


def network_settings(records: int, share: float = 1.0, batch_size: int = 8192) -> dict[str, int]:
    """Parameters of `labeldp.paper.network.regressor.NetworkRegressor` for `records` values, each worth `share` of a true label.

    The network learns what many records share in few steps, then single records by heart. 3·∛(true labels' worth) steps
    stop it between the two, whole epochs and at least one of them.
    """
    steps = 3 * max(records * share, 1.0) ** (1 / 3)
    return {"epochs": math.ceil(steps / math.ceil(max(records, 1) / batch_size))}

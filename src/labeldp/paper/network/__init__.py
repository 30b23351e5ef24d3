"""The paper's network: embeddings of the categories and dense layers, trained on the CPU with torch.

`regressor` is the scikit-learn estimator, `trainer` the loop, `weights` the trained network as plain arrays.
"""

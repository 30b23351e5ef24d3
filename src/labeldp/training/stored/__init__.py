"""Models as data: a file of arrays and JSON from which only types of an explicit list are built. Loading runs no code of the file.

`model_file` is the file, `parts` what any value is written as, `kinds` the list of types, `estimators`, `values` and `sums` its entries,
`lightgbm_text` and `xgboost_json` those of packages that need not be installed,
`tree_checks` what trees must satisfy, `other_estimators` the way of scikit-learn estimators that are not on the list, `archive` and
`built` what their files and they themselves must satisfy.
"""

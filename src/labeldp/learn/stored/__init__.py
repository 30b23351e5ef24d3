"""Models as data: a file of arrays and JSON from which only listed types are built. Loading runs no code of the file.

| file | what it does |
|---|---|
| `model_file` | writes and reads the file |
| `codec` | the list of types, the entries of values, and checks of trees, whose compiled code trusts its indices |
| `estimators` | the entries of estimators |
| `lightgbm_text`, `xgboost_json` | the entries of packages that may be missing |
| `skops_file` | scikit-learn estimators that are not listed, in the format of skops |
"""

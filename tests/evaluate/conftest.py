"""Its presence lets the tests in the folders below import `private_populations`, which lies beside it."""

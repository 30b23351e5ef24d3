"""The 23 columns of the Criteo Sponsored Search Conversion log, and which of them the paper learns from."""

import pyarrow as pa

CRITEO_NUMERIC = ("time_delay_for_conversion", "nb_clicks_1week", "product_price")
CRITEO_CATEGORICAL = (
    "product_age_group",
    "device_type",
    "audience_id",
    "product_gender",
    "product_brand",
    *(f"product_category{level}" for level in range(1, 8)),
    "product_country",
    "product_id",
    "product_title",
    "partner_id",
    "user_id",
)
CRITEO_SCHEMA = pa.schema(
    [
        ("Sale", pa.int64()),
        ("SalesAmountInEuro", pa.float64()),
        ("time_delay_for_conversion", pa.int64()),
        ("click_timestamp", pa.int64()),
        ("nb_clicks_1week", pa.int64()),
        ("product_price", pa.float64()),
        *((name, pa.string()) for name in CRITEO_CATEGORICAL),
    ]
)
"""Names, order and types of the fields in the file."""

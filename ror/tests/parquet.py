"""Reads a shard of `ror sweep` with pandas or polars and compares its means with those of `ror merge --json`.

Arguments: the Parquet file, the JSON file. Exit code 77: neither library is installed.
"""

import json
import sys

try:
    import pandas

    def columns(path):
        frame = pandas.read_parquet(path)
        return {name: frame[name].tolist() for name in frame.columns}
except ImportError:
    try:
        import polars

        def columns(path):
            return polars.read_parquet(path).to_dict(as_series=False)
    except ImportError:
        print("skipped: neither pandas nor polars is installed")
        sys.exit(77)

EXPECTED = ["item", "run", "set", "frame", "from", "to", "layer", "tolerance", "ror_short", "ror_large", "critical",
            "links_used"]

try:
    table = columns(sys.argv[1])
except ImportError as error:  # pandas without pyarrow
    print(f"skipped: {error}")
    sys.exit(77)
assert list(table) == EXPECTED, list(table)

sums = {}
for layer, tolerance, short, large in zip(table["layer"], table["tolerance"], table["ror_short"], table["ror_large"]):
    for blocks, value in (("short", short), ("large", large)):
        total, count = sums.get((layer, tolerance, blocks), (0.0, 0))
        sums[layer, tolerance, blocks] = (total + value, count + 1)

rows = json.load(open(sys.argv[2]))
assert len(rows) == len(sums), (len(rows), len(sums))
for row in rows:
    total, count = sums[row["layer"], row["tolerance"], row["blocks"]]
    assert count == row["samples"], row
    assert abs(total / count - row["mean"]) <= 1e-9 * abs(row["mean"]) + 1e-12, row
print(f"{len(table['item'])} rows give the means of `ror merge`")

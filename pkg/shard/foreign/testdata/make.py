"""Writes the tables that conformance_test.go reads, and golden.json with their rows as
pyarrow has them, by the rule that the package's doc states. Run it in this folder with
pyarrow 26.0.1 and polars 2.1.0; the files depend on nothing else. Nothing of the
product and of its tests needs Python."""

import base64
import datetime
import decimal
import json
import math
import uuid

import polars
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

PER = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def fraction(nanos):
    if nanos == 0:
        return ""
    return ".%06d" % (nanos // 1000) if nanos % 1000 == 0 else ".%09d" % nanos


def moment(value, t):
    seconds, rest = divmod(value, PER[t.unit])
    at = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return at.strftime("%Y").zfill(4) + at.strftime("-%m-%dT%H:%M:%S") + fraction(rest * (10**9 // PER[t.unit])) + ("+00:00" if t.tz else "")


def clock(value, t):
    seconds, rest = divmod(value, PER[t.unit])
    return "%02d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60) + fraction(rest * (10**9 // PER[t.unit]))


def number(value):
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def text_or_base64(value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def listed(values, t):
    return [plain(values[i], t) for i in range(len(values))]


def plain(s, t):
    """A scalar of pyarrow as JSON."""
    is_ = pa.types
    if not s.is_valid or is_.is_null(t):
        return None
    if isinstance(t, pa.BaseExtensionType):
        return str(s.as_py()) if t.extension_name == "arrow.uuid" else plain(s.value, t.storage_type)
    if is_.is_fixed_size_binary(t):
        return base64.b64encode(s.as_py()).decode()
    if is_.is_dictionary(t) or is_.is_run_end_encoded(t):
        return plain(s.value, t.value_type)
    if is_.is_union(t):
        return plain(s.value, s.value.type)
    if is_.is_floating(t):
        return number(float(s.as_py()))
    if is_.is_decimal(t):
        return format(s.as_py(), "f")
    if is_.is_date(t):
        return s.as_py().isoformat()
    if is_.is_time(t):
        return clock(s.value, t)
    if is_.is_timestamp(t):
        return moment(s.value, t)
    if is_.is_duration(t):
        return s.value
    if is_.is_interval(t):
        return dict(zip(("months", "days", "nanoseconds"), s.as_py()))
    if is_.is_map(t):
        keys, items = s.values.field(0), s.values.field(1)
        return [list(pair) for pair in zip(listed(keys, t.key_type), listed(items, t.item_type))]
    if is_.is_struct(t):
        return {f.name: plain(s[i], f.type) for i, f in enumerate(t)}
    if is_.is_nested(t):
        return listed(s.values, t.value_type)
    value = s.as_py()
    return text_or_base64(value) if isinstance(value, bytes) else value


def rows(table):
    columns = {f.name: listed(c, f.type) for f, c in zip(table.schema, table.columns)}
    return [{name: values[i] for name, values in columns.items()} for i in range(table.num_rows)]


def read(path):
    if path.endswith(".parquet"):
        return pq.ParquetFile(path).read()
    data = open(path, "rb").read()
    return (ipc.open_file if data.startswith(b"ARROW1") else ipc.open_stream)(pa.py_buffer(data)).read_all()


golden = {}


def parquet(name, table, **options):
    options = {"write_statistics": False, "store_schema": False, "compression": "none"} | options
    pq.write_table(table, name, **options)
    golden[name] = rows(read(name))


def arrow(name, table, new=ipc.new_file, chunk=None, **options):
    with pa.OSFile(name, "wb") as f, new(f, table.schema, options=ipc.IpcWriteOptions(**options)) as w:
        w.write_table(table, max_chunksize=chunk)
    golden[name] = rows(read(name))


def column(t, *values):
    return pa.array([*values, None], t)


D = decimal.Decimal
texts = ["", "a < b & c", 'quotes " and \\', "line\nend\u2028", "naïve 日本語", "x" * 40]
moments = [1709210096, 0, -1]


def times(t):
    return column(t, *[m * PER[t.unit] + PER[t.unit] // 1000 * 7 + (PER[t.unit] == 10**9) for m in moments])


scalars = pa.table({
    "null": pa.nulls(4),
    "bool": column(pa.bool_(), True, False, True),
    **{str(t): column(t, -(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1, 0) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(t): column(t, 2**t.bit_width - 1, 1, 0) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "half": column(pa.float16(), 0.5, -65504.0, 6e-8),
    "float": column(pa.float32(), 0.1, math.nan, 16777216.0),
    "double": column(pa.float64(), 1e-5, -math.inf, 1e21),
    "zero": column(pa.float64(), -0.0, 5.0, math.inf),
    "string": column(pa.string(), *texts[1:4]),
    "large_string": column(pa.large_string(), *texts[:3]),
    "view": column(pa.string_view(), "", texts[4], texts[5]),
    "binary": column(pa.binary(), b"text", b"\xff\x00", b""),
    "large_binary": column(pa.large_binary(), b"\x80", b"", b"\xc3\xa9"),
    "binary_view": column(pa.binary_view(), b"\x80" * 20, b"", b"y" * 20),
    "fixed": column(pa.binary(3), b"abc", b"\xff\xff\xff", b"\x00\x01\x02"),
    "date": column(pa.date32(), datetime.date(2024, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
    "date64": column(pa.date64(), datetime.date(1969, 12, 31), datetime.date(1970, 1, 1), datetime.date(2262, 4, 12)),
    "time_s": column(pa.time32("s"), 0, 86399, 45296),
    "time_ms": column(pa.time32("ms"), 1, 86399999, 45296000),
    "time_us": column(pa.time64("us"), 1, 86399999999, 45296789123),
    "time_ns": column(pa.time64("ns"), 1, 86399999999999, 45296789123000),
    "ts_s": times(pa.timestamp("s")),
    "ts_ms": times(pa.timestamp("ms")),
    "ts_us": times(pa.timestamp("us")),
    "ts_ns": times(pa.timestamp("ns")),
    "ts_utc": times(pa.timestamp("us", "UTC")),
    "ts_zone": times(pa.timestamp("ms", "Europe/Berlin")),
    "ts_offset": times(pa.timestamp("ns", "+02:00")),
    "duration": column(pa.duration("us"), 1, -(10**12), 0),
    "decimal": column(pa.decimal128(9, 2), D("1.50"), D("-0.01"), D("0.00")),
    "decimal_whole": column(pa.decimal128(18, 0), D("7"), D("-123456789012345678"), D("0")),
    "decimal_long": column(pa.decimal128(38, 10), D("1234567890123456789012345678.0123456789"), D("-1E-10"), D("1")),
    "decimal_256": column(pa.decimal256(76, 5), D("-" + "9" * 71 + ".00001"), D("1.25"), D("0")),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), column(pa.binary(16), uuid.UUID(int=0x12345678123456781234567812345678).bytes, b"\x00" * 16, b"\xff" * 16)),
    "json": pa.ExtensionArray.from_storage(pa.json_(), column(pa.string(), '{"a": [1, 2]}', "null", '"x"')),
    "dictionary": pa.array(["a", "b", "a", None]).dictionary_encode(),
})
ints, strings = pa.int64(), pa.string()
point = pa.struct([("x", ints), ("tags", pa.list_(strings))])
nested = pa.table({
    "list": pa.array([[1, None, 3], [], None, [4]], pa.list_(ints)),
    "lists": pa.array([[["a", None], [], None], [], None, [["b"]]], pa.list_(pa.list_(strings))),
    "large": pa.array([["x"], None, [], [None]], pa.large_list(strings)),
    "fixed": pa.array([[1, 2], [None, 3], [4, 5], None], pa.list_(ints, 2)),
    "struct": pa.array([{"x": 1, "tags": ["t"]}, {"x": None, "tags": None}, None, {"x": 2, "tags": []}], point),
    "structs": pa.array([[{"x": 1, "tags": []}, None], None, [], [{"x": None, "tags": [None]}]], pa.list_(point)),
    "deep": pa.array([{"a": {"b": {"c": 1}}}, {"a": {"b": None}}, {"a": None}, None], pa.struct([("a", pa.struct([("b", pa.struct([("c", ints)]))]))])),
    "map": pa.array([[("a", 1), ("b", None), ("a", 2)], [], None, [("é", 3)]], pa.map_(strings, ints)),
    "map_int": pa.array([[(1, "x")], [], None, [(-1, None)]], pa.map_(pa.int32(), strings)),
    "map_bool": pa.array([[(True, 1), (False, 0)], [], None, []], pa.map_(pa.bool_(), ints)),
    "map_decimal": pa.array([[(D("1.50"), "x")], [], None, []], pa.map_(pa.decimal128(5, 2), strings)),
    "map_list": pa.array([[("k", ["a", "b"]), ("l", None), ("m", [])], [], None, []], pa.map_(strings, pa.list_(strings))),
    "map_map": pa.array([[("k", [("x", 1)]), ("l", [])], [], None, []], pa.map_(strings, pa.map_(strings, ints))),
    "map_struct": pa.array([[("k", {"x": 1, "tags": ["a"]}), ("l", None)], [], None, []], pa.map_(strings, point)),
    "list_map": pa.array([[[("k", 1)], [], None], [], None, [[("l", None)]]], pa.list_(pa.map_(strings, ints))),
    "list_uuid": pa.array([[b"\x01" * 16], [], None, [None]], pa.list_(pa.binary(16))),
    "list_half": pa.array([[1.5, 2.5], [], None, [None]], pa.list_(pa.float16())),
})
only_arrow = pa.table({
    "interval": pa.array([pa.MonthDayNano([1, -2, 3]), None], pa.month_day_nano_interval()),
    "runs": pa.RunEndEncodedArray.from_arrays([1, 2], pa.array(["a", None])),
    "dense": pa.UnionArray.from_dense(pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([7]), pa.array(["seven"])], ["i", "s"]),
    "sparse": pa.UnionArray.from_sparse(pa.array([1, 0], pa.int8()), [pa.array([7, 8]), pa.array(["seven", None])], ["i", "s"]),
    "list_view": pa.array([[1, 2], None], pa.list_view(ints)),
    "large_list_view": pa.array([[], ["x"]], pa.large_list_view(strings)),
    "dictionary_list": pa.array([["a"], ["b", "a"]], pa.list_(pa.dictionary(pa.int8(), strings))),
    "storage": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())).storage,
})
parquet("scalars.parquet", scalars)
arrow("scalars.arrow", scalars)
parquet("nested.parquet", nested, data_page_version="2.0")
arrow("nested.arrow", nested)
arrow("stream.arrow", nested, ipc.new_stream, chunk=3, compression="zstd")
arrow("only.arrow", only_arrow)
arrow("compressed.arrow", scalars.select(["string", "double", "dictionary"]), compression="lz4")

simple = pa.table({
    "question": [f"What is {i} + {i * 7919 % 997}, please? What is it, please?" for i in range(60)],
    "answer": [i + i * 7919 % 997 for i in range(60)],
    "maybe": [None if i % 7 == 0 else i % 2 == 0 for i in range(60)],
})
for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
    for version in ("1.0", "2.0"):
        parquet(f"codec-{codec}-v{version[0]}.parquet", simple, compression=codec, data_page_version=version, use_dictionary=version == "1.0")
encodings = {
    "question": "DELTA_BYTE_ARRAY", "source": "DELTA_LENGTH_BYTE_ARRAY", "answer": "DELTA_BINARY_PACKED", "small": "DELTA_BINARY_PACKED",
    "share": "BYTE_STREAM_SPLIT", "single": "BYTE_STREAM_SPLIT", "fixed": "DELTA_BYTE_ARRAY", "split": "BYTE_STREAM_SPLIT", "flag": "RLE",
}
encoded = pa.table({
    "question": simple["question"],
    "source": simple["question"],
    "answer": pa.array([None if i % 9 == 0 else (i * 2654435761) % 2**63 * (-1) ** i for i in range(60)], ints),
    "small": pa.array([i * 48271 % 2**31 - 2**30 for i in range(60)], pa.int32()),
    "share": pa.array([i / 7 for i in range(60)]),
    "single": pa.array([i / 7 for i in range(60)], pa.float32()),
    "fixed": pa.array([b"%04d" % i for i in range(60)], pa.binary(4)),
    "split": pa.array([None if i % 5 == 0 else i for i in range(60)], ints),
    "flag": pa.array([i % 3 == 0 for i in range(60)]),
})
for version in ("1.0", "2.0"):
    parquet(f"encodings-v{version[0]}.parquet", encoded, data_page_version=version, use_dictionary=False, column_encoding=encodings)
parquet("pages.parquet", simple, data_page_size=40, write_batch_size=5, row_group_size=25, write_page_checksum=True)
parquet("int96.parquet", scalars.select(["ts_us", "ts_ns"]), use_deprecated_int96_timestamps=True)
parquet("decimal-int.parquet", scalars.select(["decimal", "decimal_whole"]), store_decimal_as_integer=True)
parquet("item.parquet", nested.select(["list", "structs"]), use_compliant_nested_type=False)
parquet("old.parquet", scalars.select(["string", "ts_ms", "uint32", "date", "time_ms"]), version="1.0")
parquet("no-rows.parquet", nested.slice(0, 0).select(["list", "map"]))
arrow("no-rows.arrow", nested.slice(0, 0).select(["list", "map"]))

frame = polars.DataFrame({"s": ["a", "b" * 40, None], "l": [["x"], [], None], "c": polars.Series(["u", "v", "u"], dtype=polars.Categorical), "d": [D("1.50"), None, D("-2.25")]})
frame.write_ipc("polars.arrow")
golden["polars.arrow"] = rows(read("polars.arrow"))
frame.write_parquet("polars.parquet", statistics=False)
golden["polars.parquet"] = rows(read("polars.parquet"))

# What is refused, with what the error says.
parquet_of = lambda table, name: pq.write_table(table, name, write_statistics=False, store_schema=False)
parquet_of(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), "bad-names.parquet")
with pa.OSFile("bad-year.arrow", "wb") as f, ipc.new_file(f, pa.schema([("far", pa.timestamp("s"))])) as w:
    w.write_table(pa.table({"far": pa.array([2**62], pa.timestamp("s"))}))

def known(name):
    """The rows of a file, or the name of an earlier one that has the same."""
    for earlier in sorted(golden):
        if earlier == name:
            return "[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in golden[name]) + "\n]"
        if json.dumps(golden[earlier]) == json.dumps(golden[name]):
            return json.dumps(earlier)


wide = polars.DataFrame({"wide": polars.Series([1], dtype=polars.Int128)})
wide.write_parquet("bad-wide.parquet", statistics=False)
wide.write_ipc("bad-wide.arrow")

with open("golden.json", "w") as f:
    f.write("{\n" + ",\n".join(json.dumps(name) + ": " + known(name) for name in sorted(golden)) + "\n}\n")

"""Makes the files beside it, in the layouts of verl and of Hugging Face datasets
(save_to_disk), with pyarrow 26: python3 make.py"""

import json
import os

import pyarrow as pa
import pyarrow.parquet as parquet

ROWS = [
    {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": "1+1?"}],
        "reward_model": {"style": "rule", "ground_truth": "2"},
        "extra_info": {"index": 0, "share": 0.1, "list": [1, None, 3], "flag": True},
    },
    {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "system", "content": "Be brief. é"}, {"role": "user", "content": "2+2?"}],
        "reward_model": {"style": "rule", "ground_truth": "4"},
        "extra_info": {"index": 1, "share": 1e300, "list": [], "flag": None},
    },
    {
        "data_source": None,
        "prompt": [{"role": "user", "content": "3+3?"}, {"role": "assistant", "content": "6"}],
        "reward_model": {"style": "rule", "ground_truth": "6"},
        "extra_info": {"index": 1152921504606846977, "share": -0.5, "list": None, "flag": False},
    },
]

table = pa.Table.from_pylist(ROWS)
table = table.append_column("bytes", pa.array([b"\xff\x00", b"text", None]))
table = table.append_column("single", pa.array([0.1, float("nan"), None], pa.float32()))
table = table.append_column("kind", pa.array(["a", "b", "a"]).dictionary_encode())
parquet.write_table(table, "verl.parquet", compression="zstd", row_group_size=2)
with pa.OSFile("verl.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
    writer.write_table(table)
os.makedirs("saved", exist_ok=True)
for i, part in enumerate([table.slice(0, 2), table.slice(2)]):
    with pa.OSFile(f"saved/data-{i:05d}-of-00002.arrow", "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(part)
with open("saved/state.json", "w") as file:
    json.dump({"_data_files": [{"filename": f"data-{i:05d}-of-00002.arrow"} for i in range(2)], "_split": "train"}, file)

# Files of one data set whose nested columns differ, and one whose types contradict them.
os.makedirs("union", exist_ok=True)
FILES = {
    "a": {"question": ["1+1?"], "answer": ["2"], "extra": [{"id": 1, "tags": [{"name": "x"}]}], "only_a": [True]},
    "b": {"question": ["2+2?"], "answer": ["4"], "extra": [{"id": 2, "note": "n", "tags": [{"name": "y", "weight": 0.5}]}], "none": pa.nulls(1)},
    "c": {"question": ["3+3?"], "answer": [6]},
}
for name, columns in FILES.items():
    parquet.write_table(pa.table(columns), f"union/{name}.parquet", store_schema=False, write_statistics=False)

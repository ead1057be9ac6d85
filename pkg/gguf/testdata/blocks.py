"""Writes blocks.json: random blocks of each tensor type and the values that the Python package gguf gives.

Made with gguf 0.19.0 and numpy 2.4.6: python3 blocks.py > blocks.json
With a number of blocks as argument, it makes that many of each type.
"""
import base64, json, sys
import numpy as np
from gguf import GGMLQuantizationType as T, GGML_QUANT_SIZES, dequantize

np.seterr(all="ignore")
draw = np.random.default_rng(54)
# Where the binary16 scales are in a block.
scales = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "F16": [0], "BF16": [], "F32": []}
odd = np.array([0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e01, 0x3c00], dtype="<u2")
cases = {}
for name, at in scales.items():
    elements, size = GGML_QUANT_SIZES[T[name]]
    n = int(sys.argv[1]) if len(sys.argv) > 1 else {1: 256, 32: 24, 256: 6}[elements]
    blocks = draw.integers(0, 256, (n, size), dtype=np.uint8)
    for offset in at:
        ordinary = draw.normal(0, 0.02, n).astype("<f2")
        some = draw.random(n) < 0.4
        value = np.where(some, odd[draw.integers(0, len(odd), n)], ordinary.view("<u2")).astype("<u2")
        blocks[:, offset:offset + 2] = value.view(np.uint8).reshape(n, 2)
    values = dequantize(blocks, T[name]).astype("<f4").reshape(-1)
    values[np.isnan(values)] = np.nan  # one NaN for all
    cases[name] = {"blocks": base64.b64encode(blocks.tobytes()).decode(), "values": base64.b64encode(values.tobytes()).decode()}
json.dump(cases, sys.stdout, indent=1)

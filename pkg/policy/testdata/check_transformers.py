"""Check that transformers makes of a policy folder what Lathe does.

Needs: pip install torch==2.15.0 transformers==5.23.0 safetensors==0.8.0.
Usage: check_transformers.py FOLDER [LIKE] FILE

FILE has a line for each sequence as `lathe policy logprobs --model FOLDER`
prints it: {"token_ids": ..., "logprobs": ..., "entropy": ...}. They must be
within 1e-5, relative to the largest, of those that transformers computes in
float64 from the weights of FOLDER, which must load without a tensor missing
or left over. With LIKE, the folder that training began with, names, types and
files of tensors must be the same, the numbers must not, and every file but
those of the weights must have the same bytes.
"""

import glob
import json
import os
import sys

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging

logging.disable_progress_bar()


def tensors(folder):
    found = {}
    for path in sorted(glob.glob(folder + "/model*.safetensors")):
        with safe_open(path, framework="pt") as f:
            for name in f.keys():
                found[name] = os.path.basename(path), f.get_tensor(name)
    return found


def main(folder, *rest):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(kind), f"{kind}: {info[kind]}"
    embed = model.get_input_embeddings()
    if hasattr(embed, "embed_scale"):  # Gemma rounds it to the type that the table is in
        embed.embed_scale = embed.embed_scale.to(tensors(folder)["model.embed_tokens.weight"][1].dtype)
    GenerationConfig.from_pretrained(folder)
    if len(rest) == 2:
        old, new = tensors(rest[0]), tensors(folder)
        assert old.keys() == new.keys(), "the names of tensors differ"
        for name, (file, was) in old.items():
            assert new[name][0] == file and new[name][1].dtype == was.dtype, f"{name} is in {new[name][0]} as {new[name][1].dtype}"
        changed = sum(not torch.equal(was, new[name][1]) for name, (_, was) in old.items())
        assert changed == len(old), f"{changed} of {len(old)} tensors have changed"
        for name in os.listdir(rest[0]):
            if not name.endswith(".safetensors"):
                with open(f"{rest[0]}/{name}", "rb") as a, open(f"{folder}/{name}", "rb") as b:
                    assert a.read() == b.read(), f"{name} has changed"
    worst = 0.0
    with open(rest[-1]) as lines, torch.no_grad():
        for line in lines:
            said = json.loads(line)
            tokens = torch.tensor([said["token_ids"]])
            logs = torch.log_softmax(model(tokens).logits[0, :-1], -1)
            for ours, theirs in (
                (said["logprobs"], logs.gather(-1, tokens[0, 1:, None])[:, 0]),
                (said["entropy"], -(logs.exp() * logs).sum(-1)),
            ):
                ours = torch.tensor(ours[1:], dtype=torch.float64)
                worst = max(worst, ((ours - theirs).abs().max() / theirs.abs().max()).item())
    assert worst < 1e-5, f"log-probabilities or entropies differ by {worst:.2g}"
    print(f"loads in transformers; log-probabilities and entropies differ by {worst:.2g} at most")


main(*sys.argv[1:])

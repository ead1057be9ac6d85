"""Write peers.json: how far float32 log-probabilities of transformers are from its float64 ones.

Needs: pip install torch==2.6.0 transformers==5.24.0 safetensors==0.8.0. Run in
this folder. For each model of make_golden.py and make_families.py it writes the
largest difference and the mean one, over all tokens; jobs/FAMILIES.md shows them
beside Lathe's.
"""

import glob
import json
import os

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

logging.disable_progress_bar()
torch.set_num_threads(1)
cases = {}
for folder in sorted(glob.glob("golden/*") + glob.glob("families/*")):
    golden = load_file(folder + "/golden.safetensors")
    tokens = golden["tokens"].long()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    if folder.endswith("gemma3-bf16"):  # as make_families.py has it
        scale = model.model.embed_tokens
        scale.embed_scale = scale.embed_scale.to(torch.bfloat16)
    with torch.no_grad():
        logs = torch.log_softmax(model(tokens).logits[:, :-1], -1).gather(-1, tokens[:, 1:, None])[..., 0]
    apart = (logs.double() - golden["logprobs"][:, 1:].double()).abs()
    cases[os.path.basename(folder)] = {"most": apart.max().item(), "mean": apart.mean().item()}
with open("peers.json", "w") as f:
    json.dump({"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "cases": cases}, f, indent=1)
    f.write("\n")

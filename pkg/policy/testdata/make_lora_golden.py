"""Write golden adapters with their log-probabilities and gradients.

Needs: pip install torch==2.15.0 transformers==5.23.0 peft==0.21.2 safetensors==0.8.0.
Run in this folder, after `go test ./pkg/policy/cpu -run TestAgainstPEFT -update`,
which writes lora/lathe. lora/peft, lora/phi3 and lora/gemma2 are adapters as PEFT writes them.
Into every folder goes golden.safetensors: tokens (2, 24), logprobs (2, 24) of
each token given its predecessors (0 for the first), coefficients (2, 24), and
grad.NAME, the gradients of sum(coefficients * logprobs) by A and B. All
computed by PEFT in float64 from the folder's files, rounded to float32 at the
end.

With a folder as argument, print instead what PEFT makes of it: the
log-probabilities of tokens 0..9.
"""

import os
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM


def logprobs(model, tokens):
    logits = model(tokens).logits
    inner = torch.log_softmax(logits[:, :-1], -1).gather(-1, tokens[:, 1:, None])[..., 0]
    return torch.nn.functional.pad(inner, (1, 0))


def load(folder):
    base = AutoModelForCausalLM.from_pretrained(os.path.join(folder, LoraConfig.from_pretrained(folder).base_model_name_or_path))
    return PeftModel.from_pretrained(base, folder, is_trainable=True).double().eval()


def golden(folder):
    model = load(folder)
    tokens = torch.randint(0, model.config.vocab_size, (2, 24))
    coefficients = torch.randn(2, 24, dtype=torch.float64)
    coefficients[:, 0] = 0
    out = logprobs(model, tokens)
    (coefficients.float().double() * out).sum().backward()
    tensors = {"tokens": tokens, "logprobs": out.detach(), "coefficients": coefficients}
    # The state dictionary has the names of files; its tensors are the parameters.
    trained = {p.data_ptr(): p for p in model.parameters() if p.requires_grad}
    for name, tensor in get_peft_model_state_dict(model).items():
        tensors["grad." + name] = trained[tensor.data_ptr()].grad
    save_file({k: v.float().contiguous() for k, v in tensors.items()}, folder + "/golden.safetensors")


if len(sys.argv) > 1:
    print([round(x, 6) for x in logprobs(load(sys.argv[1]), torch.arange(10)[None])[0].tolist()])
    sys.exit()

torch.manual_seed(0)
for name, base, targets in (
    ("peft", "golden/qwen2-tied", ["q_proj", "v_proj", "o_proj"]),
    ("phi3", "families/phi3", ["qkv_proj", "gate_up_proj", "down_proj"]),
    ("gemma2", "families/gemma2", ["q_proj", "o_proj", "up_proj", "down_proj"]),
):
    config = LoraConfig(r=4, lora_alpha=6, target_modules=targets, lora_dropout=0.1, use_rslora=True, task_type="CAUSAL_LM")
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    for p in model.parameters():
        if p.requires_grad:
            p.data = torch.randn_like(p) * 0.3
    model.peft_config["default"].base_model_name_or_path = "../../" + base
    model.save_pretrained("lora/" + name)
    os.remove(f"lora/{name}/README.md")
    golden("lora/" + name)
golden("lora/lathe")

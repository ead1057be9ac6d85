"""One step of GRPO by Lathe and by TRL, side by side: sampling, rewards, update.

    python analysis/bench_grpo.py [--threads 2] [--steps 4] [--lathe bin/lathe] [--policy FOLDER] [--only bfloat16]

Needs: pip install torch==2.15.0 transformers==5.24.0 trl==1.16.0; make build.
Both begin with the same policy, that of FOLDER or one of 24 million random
weights with a tokenizer of bytes, and let it answer 16 prompts 8 times with at
most 100 tokens; what ends a response sooner is its end token, which a random
policy draws once in 260. A reward is the share of digits in a response. TRL is
measured in float32, under bfloat16 autocast and with bfloat16 weights, by
GRPOTrainer's steps; its best counts. Lathe is measured as a run: the sealed
seconds of its rollout, score, buffer and learn tasks, one after the other,
which include starting processes and files. Times are means over the steps,
TRL's without its first. Tokens a second are those of responses, of sampling
(transformers' generate in TRL) and of all else of the step.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPTS, GROUP, NEW_TOKENS = 16, 8, 100
RECIPE = """
preset: trl-grpo
policy:
  backend: cpu
  {policy}
env:
  prompts: {{initial: "{preamble}{{question}}=", improve: "{{question}}={{previous_response}};", diverge: "{{question}}={{previous_response}}!"}}
  answer: {{verifier: exact, extract: whole}}
data:
  train:
    generate: {{kinds: [add], levels: [2], count: 60, test_share: 0.25}}
  test:
    generate: {{kinds: [add], levels: [2], count: 16, test_share: 0.25}}
curriculum: {{name: uniform}}
score: {{embedding: none}}
rollout: {{prompts: {prompts}, group: {group}, max_new_tokens: {new_tokens}}}
schedule: {{iterations: {steps}}}
evaluation: {{problems: 1, samples: 1, steps: 0, greedy: false, max_new_tokens: 1}}
"""
RANDOM = """new: {hidden_size: 512, intermediate_size: 1408, num_hidden_layers: 8, num_attention_heads: 8, num_key_value_heads: 4,
        max_position_embeddings: 512, tokenizer: bytes}"""
PREAMBLE = "Please add these two numbers and say nothing but the sum: "  # 58 bytes, and about 6 of the question


def ours(lathe, folder, policy, threads, steps, settings):
    recipe, run = folder / "step.yaml", folder / ("run-" + "-".join(settings).replace("/", "_"))
    recipe.write_text(RECIPE.format(policy=policy, preamble=PREAMBLE, prompts=PROMPTS, group=GROUP, new_tokens=NEW_TOKENS, steps=steps))
    command = [lathe, "run", str(recipe), "--run", str(run), "--cores", str(threads), "--set", f"resources.threads={threads}"]
    for stage in ("rollout", "learn"):
        command += ["--set", f"resources.stages.{stage}.cpus={threads}"]
    for setting in settings:
        command += ["--set", setting]
    subprocess.run(command, check=True, capture_output=True)
    report = json.loads(subprocess.run([lathe, "report", str(run), "--json"], check=True, capture_output=True, text=True).stdout)
    seconds = {s["stage"]: s["wall_seconds"] / steps for s in report["stages"] if s["stage"] in ("rollout", "score", "buffer", "learn")}
    sampled = report["tokens"]["response"] / (steps * PROMPTS * GROUP)
    return seconds, sampled


def peer(folder, mode, threads, steps, rows):
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16 if mode == "bfloat16" else torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    lengths, times, generating = [], [], []
    generate = model.generate

    def timed(*positional, **named):
        began = time.perf_counter()
        try:
            return generate(*positional, **named)
        finally:
            generating[-1] += time.perf_counter() - began

    model.generate = timed

    def digits(completions, completion_ids=None, **_):
        lengths.extend(map(len, completion_ids))
        return [sum(c.isdigit() for c in text) / max(1, len(text)) for text in completions]

    class Clock(TrainerCallback):
        def on_step_begin(self, *_, **__):
            self.began = time.perf_counter()
            generating.append(0.0)

        def on_step_end(self, *_, **__):
            times.append(time.perf_counter() - self.began)

    prompts = [f"{PREAMBLE}{10 + i}+{99 - i}=" for i in range(PROMPTS)]
    with tempfile.TemporaryDirectory() as out:
        config = GRPOConfig(
            output_dir=out, per_device_train_batch_size=rows, gradient_accumulation_steps=PROMPTS * GROUP // rows, num_generations=GROUP,
            max_completion_length=NEW_TOKENS, temperature=1.0, beta=0.0, learning_rate=1e-6, max_steps=steps, bf16=mode == "autocast",
            use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no", gradient_checkpointing=False, dataloader_num_workers=0)
        trainer = GRPOTrainer(model=model, reward_funcs=digits, args=config, processing_class=tokenizer, callbacks=[Clock()],
                              train_dataset=Dataset.from_dict({"prompt": prompts}))
        began = time.perf_counter()
        trainer.train()
        whole = time.perf_counter() - began
    print(json.dumps({"steps": times, "generating": generating, "whole": whole, "tokens": sum(lengths) / max(1, len(lengths))}))


def main():
    if sys.argv[1:2] == ["--peer"]:
        return peer(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--policy", default="")
    parser.add_argument("--only", default="", help="measure those whose names have this word")
    parser.add_argument("--lathe", default=str(ROOT / "bin" / "lathe"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        found = {}  # seconds of sampling and of all else, tokens of a response, and its parts
        policy = f"path: {pathlib.Path(args.policy).resolve()}" if args.policy else RANDOM
        for name, settings in {
            "Lathe, float32": [], "Lathe, float32, shared prompts": ["schedule.shared_prompt_tokens=4096"],
            "Lathe, bfloat16": ["policy.compute=bfloat16"], "Lathe, bfloat16, shared prompts": ["policy.compute=bfloat16", "schedule.shared_prompt_tokens=4096"],
        }.items():
            if args.only not in name:
                continue
            seconds, tokens = ours(args.lathe, folder, policy, args.threads, args.steps, settings)
            sampling = seconds["rollout"]
            found[name] = sampling, sum(seconds.values()) - sampling, tokens, ", ".join(f"{stage} {s:.2f}" for stage, s in seconds.items())
        start = next(folder.glob("run-*")) / "policy" / "v000000"
        for mode in ("float32", "autocast", "bfloat16"):
            for rows in (32, PROMPTS * GROUP):
                if args.only not in (name := f"TRL, {mode}, {rows} rows a pass"):
                    continue
                out = subprocess.run([sys.executable, __file__, "--peer", str(start), mode, str(args.threads), str(args.steps), str(rows)],
                                     check=True, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS=str(args.threads)))
                result = json.loads(out.stdout.splitlines()[-1])
                step, sampling = (sum(result[k][1:]) / (args.steps - 1) for k in ("steps", "generating"))
                found[name] = sampling, step - sampling, result["tokens"], f"{result['whole'] / args.steps:.2f} with all around the steps"
        best = min(sampling + rest for name, (sampling, rest, *_) in found.items() if name.startswith("TRL"))
        print(f"threads {args.threads}: seconds of a step, TRL's best by it, tokens of a response; tokens a second of sampling and of all else")
        for name, (sampling, rest, tokens, parts) in found.items():
            every = tokens * PROMPTS * GROUP
            print(f"{name:34} {sampling + rest:7.2f} {best / (sampling + rest):6.2f} {tokens:6.1f} {every / sampling:7.0f} {every / rest:7.0f}   {parts}")


if __name__ == "__main__":
    main()

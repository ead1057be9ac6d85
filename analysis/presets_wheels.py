"""Compare the presets named after TRL with an installed TRL, by the defaults of its
GRPOConfig: python3 presets_trl.py LATHE, where LATHE is the binary.

TRL is read and not imported, so neither torch nor a GPU is needed:

    python3 -m venv venv && venv/bin/pip install --no-deps trl
    venv/bin/python analysis/presets_trl.py bin/lathe

It prints a line for each setting and ends with 1 if any differs: then the preset is to
follow, or its comment is to say why not.
"""

import ast
import importlib.metadata
import json
import pathlib
import subprocess
import sys

FOLLOWED = "1.16"  # the version that the presets name

# The aggregation, and divisor of the reward's deviation, by the names that TRL has.
WEIGHTS = {"dapo": "token_mean", "bnpo": "token_mean", "grpo": "seq_mean_token_mean", "sapo": "seq_mean_token_mean", "dr_grpo": "seq_mean_token_sum_norm"}
KINDS = {"dapo": "clip", "bnpo": "clip", "grpo": "clip", "dr_grpo": "clip", "sapo": "sapo", "cispo": "cispo"}
SCALES = {"group": "std", "none": "none"}


def defaults(source: pathlib.Path) -> dict:
    """Defaults of the fields of the dataclass GRPOConfig."""
    found = {}
    for node in ast.walk(ast.parse(source.read_text())):
        if not (isinstance(node, ast.ClassDef) and node.name == "GRPOConfig"):
            continue
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.value, ast.Call):
                for keyword in field.value.keywords:
                    if keyword.arg == "default":
                        try:
                            found[field.target.id] = ast.literal_eval(keyword.value)
                        except ValueError:
                            pass  # an expression
    if not found:
        sys.exit(f"{source}: there is no GRPOConfig with defaults")
    return found


def epsilon_of_scale(source: pathlib.Path) -> float:
    """What TRL adds to the deviation that advantages are divided by."""
    added = {
        node.right.value
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant)
        and isinstance(node.left, ast.Name) and node.left.id == "std_rewards"
    }
    if len(added) != 1:
        sys.exit(f"{source}: std_rewards has {sorted(added)} added to it, want one number")
    return added.pop()


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    version = importlib.metadata.version("trl")
    folder = pathlib.Path(importlib.metadata.distribution("trl").locate_file("trl")) / "trainer"
    trl, epsilon = defaults(folder / "grpo_config.py"), epsilon_of_scale(folder / "grpo_trainer.py")
    print(f"TRL {version}; the presets follow {FOLLOWED}")
    differ = 0 if version.startswith(FOLLOWED + ".") else 1
    for preset, loss_type in (("trl-grpo", trl["loss_type"]), ("trl-sapo", "sapo")):
        shown = subprocess.run([sys.argv[1], "recipe", "preset", preset], check=True, capture_output=True, text=True).stdout
        ours = json.loads(shown)
        loss, advantage = ours["loss"], ours["advantage"]
        rows = [
            ("loss.kind", loss["kind"], KINDS.get(loss_type)),
            ("weight", ours["weight"], WEIGHTS.get(loss_type)),
            ("loss.clip_low", loss["clip_low"], trl["epsilon"]),
            ("loss.clip_high", loss["clip_high"], trl["epsilon"] if trl["epsilon_high"] is None else trl["epsilon_high"]),
            ("loss.dual_clip", loss["dual_clip"], trl["delta"] or 0),
            ("loss.kl.coef", loss["kl"]["coef"], trl["beta"]),
            ("loss.kl.importance", loss["kl"]["importance"], trl["use_bias_correction_kl"]),
            ("loss.tokens.name", loss["tokens"]["name"], "all" if trl["top_entropy_quantile"] == 1 else "entropy"),
            ("loss.epochs", loss["epochs"], trl["num_iterations"]),
            ("advantage.scale", advantage["scale"], SCALES.get(trl["scale_rewards"])),
            ("advantage.epsilon", advantage["epsilon"], epsilon),
            ("select", "overlong" in (ours["select"] or []), trl["mask_truncated_completions"]),
        ]
        if loss_type == "sapo":
            rows += [
                ("loss.tau_positive", loss["tau_positive"], trl["sapo_temperature_pos"]),
                ("loss.tau_negative", loss["tau_negative"], trl["sapo_temperature_neg"]),
            ]
        for name, own, theirs in rows:
            same = own == theirs
            differ += not same
            print(f"{preset:9} {name:20} {own!s:22} {'' if same else f'TRL has {theirs}'}".rstrip())
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

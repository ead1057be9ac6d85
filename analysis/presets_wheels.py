"""Compare the presets named after TRL and verl with the TRL and verl that are installed, by
their defaults: python3 presets_wheels.py LATHE, where LATHE is the binary.

Their source is read and not imported, so neither torch nor a GPU is needed:

    python3 -m venv venv && venv/bin/pip install --no-deps trl verl
    venv/bin/python analysis/presets_wheels.py bin/lathe

It prints a line for each setting and ends with 1 if any differs: then the preset is to
follow, or its comment is to say why not.
"""

import ast
import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys

FOLLOWED = {"trl": "1.16", "verl": "0.9"}  # the versions that the presets name

# The aggregation, and divisor of the reward's deviation, by the names that they have.
WEIGHTS = {
    "dapo": "token_mean", "bnpo": "token_mean", "grpo": "seq_mean_token_mean", "sapo": "seq_mean_token_mean", "dr_grpo": "seq_mean_token_sum_norm",
    "token-mean": "token_mean", "seq-mean-token-mean": "seq_mean_token_mean", "seq-mean-token-sum-norm": "seq_mean_token_sum_norm",
}
KINDS = {"dapo": "clip", "bnpo": "clip", "grpo": "clip", "dr_grpo": "clip", "sapo": "sapo", "cispo": "cispo"}
SCALES = {"group": "std", "none": "none"}


def folder_of(package: str) -> pathlib.Path:
    return pathlib.Path(importlib.metadata.distribution(package).locate_file(package))


def defaults(source: pathlib.Path, name: str) -> dict:
    """Defaults of the fields of a dataclass."""
    found = {}
    for node in ast.walk(ast.parse(source.read_text())):
        if not (isinstance(node, ast.ClassDef) and node.name == name):
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
        sys.exit(f"{source}: there is no {name} with defaults")
    return found


def scalars(source: pathlib.Path) -> dict:
    """The numbers, words and truths of a YAML file, by their last key."""
    found = {}
    for key, text in re.findall(r"^\s*(\w+): *([^#\s]+)", source.read_text(), re.MULTILINE):
        try:
            found[key] = json.loads(text.strip('"'))
        except ValueError:
            found[key] = text.strip('"')
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


def function(source: pathlib.Path, name: str) -> tuple[dict, str]:
    """The defaults of a function's arguments, and its text."""
    text = source.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            given = zip(node.args.args[::-1], node.args.defaults[::-1])
            return {a.arg: d.value for a, d in given if isinstance(d, ast.Constant)}, ast.get_source_segment(text, node)
    sys.exit(f"{source}: there is no function {name}")


def clamp(text: str, name: str) -> float:
    """The bound on both sides that a function clamps a variable at; 0 for none."""
    bounds = re.findall(rf"torch\.clamp\({name}, min=-([0-9.]+), max=([0-9.]+)\)", text)
    return float(bounds[0][1]) if bounds and bounds[0][0] == bounds[0][1] else 0


def of_trl() -> list:
    folder = folder_of("trl") / "trainer"
    trl, epsilon = defaults(folder / "grpo_config.py", "GRPOConfig"), epsilon_of_scale(folder / "grpo_trainer.py")
    rows = []
    for preset, loss_type in (("trl-grpo", trl["loss_type"]), ("trl-sapo", "sapo")):
        rows += [(preset, field, theirs) for field, theirs in (
            ("loss.kind", KINDS.get(loss_type)),
            ("weight", WEIGHTS.get(loss_type)),
            ("loss.clip_low", trl["epsilon"]),
            ("loss.clip_high", trl["epsilon"] if trl["epsilon_high"] is None else trl["epsilon_high"]),
            ("loss.dual_clip", trl["delta"] or 0),
            ("loss.kl.coef", trl["beta"]),
            ("loss.kl.importance", trl["use_bias_correction_kl"]),
            ("loss.tokens.name", "all" if trl["top_entropy_quantile"] == 1 else "entropy"),
            ("loss.epochs", trl["num_iterations"]),
            ("advantage.scale", SCALES.get(trl["scale_rewards"])),
            ("advantage.epsilon", epsilon),
            ("select", ["overlong"] if trl["mask_truncated_completions"] else []),
        )]
    return rows + [("trl-sapo", "loss.tau_positive", trl["sapo_temperature_pos"]), ("trl-sapo", "loss.tau_negative", trl["sapo_temperature_neg"])]


def of_verl() -> list:
    folder = folder_of("verl") / "trainer"
    actor, critic = scalars(folder / "config" / "actor" / "actor.yaml"), scalars(folder / "config" / "critic" / "critic.yaml")
    code = folder / "ppo" / "core_algos.py"
    grpo, _ = function(code, "compute_grpo_outcome_advantage")
    kl = function(code, "kl_penalty_forward")[1]
    rows = []
    for preset, name, dual in (
        ("verl-grpo", "vanilla", actor["clip_ratio_c"]), ("verl-ppo", "vanilla", actor["clip_ratio_c"]), ("ppo", "vanilla", actor["clip_ratio_c"]),
        ("clip-cov", "clip_cov", 0), ("kl-cov", "kl_cov", 0),
    ):
        rows += [
            (preset, "weight", WEIGHTS.get(actor["loss_agg_mode"])),
            (preset, "loss.dual_clip", dual),
            (preset, "loss.ratio_clamp", clamp(function(code, "compute_policy_loss_" + name)[1], "negative_approx_kl")),
            (preset, "loss.epochs", actor["ppo_epochs"]),
        ]
        if name != "kl_cov":  # which does not clip
            rows += [(preset, "loss.clip_low", actor["clip_ratio_low"]), (preset, "loss.clip_high", actor["clip_ratio_high"])]
        if preset not in ("verl-ppo", "ppo"):
            rows.append((preset, "advantage.epsilon", grpo["epsilon"]))
    return rows + [
        ("verl-grpo", "loss.kl.coef", actor["kl_loss_coef"]),
        ("verl-grpo", "loss.kl.estimator", {"low_var_kl": "k3"}.get(actor["kl_loss_type"], actor["kl_loss_type"])),
        ("verl-grpo", "loss.kl.input_clamp", clamp(kl, "kl")),
        ("verl-grpo", "loss.kl.output_clamp", clamp(kl, "kld")),
        ("clip-cov", "loss.tokens.share", actor["clip_cov_ratio"]),
        ("clip-cov", "loss.tokens.low", actor["clip_cov_lb"]),
        ("clip-cov", "loss.tokens.high", actor["clip_cov_ub"]),
        ("kl-cov", "loss.tokens.share", actor["kl_cov_ratio"]),
        ("kl-cov", "loss.tokens.kl_coef", actor["ppo_kl_coef"]),
        ("ppo", "loss.value.clip", critic["cliprange_value"]),
    ]


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    compared = differ = 0
    for package, rows_of in (("trl", of_trl), ("verl", of_verl)):
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            print(f"{package} is not installed")
            continue
        print(f"{package} {version}; the presets follow {FOLLOWED[package]}")
        differ += not version.startswith(FOLLOWED[package] + ".")
        presets = {}
        for preset, field, theirs in rows_of():
            if preset not in presets:
                shown = subprocess.run([sys.argv[1], "recipe", "preset", preset], check=True, capture_output=True, text=True).stdout
                presets[preset] = json.loads(shown)
            own = presets[preset]
            for key in field.split("."):
                own = own[key]
            same = (own or []) == theirs if field == "select" else own == theirs
            compared, differ = compared + 1, differ + (not same)
            print(f"{preset:9} {field:20} {own!s:22} {'' if same else f'{package} has {theirs}'}".rstrip())
    print(f"{compared} settings compared, {differ} differences")
    return 1 if differ or not compared else 0


if __name__ == "__main__":
    sys.exit(main())

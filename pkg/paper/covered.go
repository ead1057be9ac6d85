package paper

// What several rows have in common.
const (
	exitMath    = "exit-*"
	exitTools   = "bfcl-*"
	exitMLE     = "exit/mle-grpo exit/mle-curriculum exit/mle-improve exit/mle-diverge exit/mle-exit"
	miniMath    = "exit/mini/puzzle-*"
	miniTools   = "exit/mini/tools-*"
	miniMLE     = "exit/mini/mle-*"
	fliptsArms  = "flipts/qwen3-4b flipts/trajectory flipts/dynamic-filter flipts/offline flipts/step-level"
	miniFlipTS  = "flipts/small flipts/small-trajectory flipts/small-dynamic-filter flipts/small-offline flipts/small-step-level"
	otherModels = "rows of closed models are theirs"
	aceMini     = "ace/mini/ace"
	mlerlMini   = "mlerl/mini/mlerl"
	rlmleMini   = "rlmle/mini/rlmle"
	rlmleArms   = "rlmle/ppo rlmle/ppo-durations rlmle/ppo-instrumentation rlmle/rlmle"
	oneOfEach   = "each of the 12 tasks is a run: `--grid data.train=[A],[B]`"
)

var exitCovered = []Covered{
	{"ExIt Tab. 1", "accuracy after K revisions and Δ_K, three domains", "table-1", exitMath + " " + exitTools + " " + exitMLE, miniMath + " " + miniTools + " " + miniMLE, "MLE-bench: best so far; tool use: first-turn accuracy beside the whole task"},
	{"ExIt Tab. 2", "distances of starting programs", "table-2", exitMLE, miniMLE, "`--embedding` asks a model; hashed n-grams else"},
	{"ExIt Tab. 3", "score ranges", "", "exit/mle-grpo", "", settingsPage},
	{"ExIt Tab. 4", "hyperparameters, mathematics", "", exitMath, "", settingsPage},
	{"ExIt Tab. 5", "hyperparameters, tool use", "", exitTools, "", settingsPage},
	{"ExIt Tab. 6", "hyperparameters, MLE-bench", "", exitMLE, "", settingsPage},
	{"ExIt Tab. 7", "distances of all instances", "table-7", exitMLE, miniMLE, ""},
	{"ExIt Fig. 1", "a task alone and among others", "figure-1, transfer", "exit/mle-single exit/mle-grpo", "exit/mini/mle-single exit/mini/mle-grpo mixed/both mixed/sort mixed/colour", "`transfer`: runs of several environments alone"},
	{"ExIt Fig. 2", "overview", "", "", "", diagram},
	{"ExIt Fig. 3", "score by revision", "figure-3, figure-3-first-turn", exitMath + " " + exitTools, miniMath + " " + miniTools, ""},
	{"ExIt Fig. 4", "net corrections", "figure-4", exitMath, miniMath, ""},
	{"ExIt Fig. 5", "recency and depth; greedy search", "figure-5-left, figure-5-right", exitMLE, miniMLE, ""},
	{"ExIt Fig. 6", "depth, start turn and solution steps", "figure-6", exitMath + " " + exitTools, miniMath + " " + miniTools, "steps: sentences of solutions, reference calls; puzzles have their level"},
	{"ExIt Fig. 7", "distinct instances, and their projection", "figure-7, figure-7-projection", exitTools + " " + exitMLE, miniTools + " " + miniMLE, "principal components in place of UMAP"},
	{"ExIt Fig. 8", "net corrections by set", "figure-8", exitMath, miniMath, "the miniature has one set"},
	{"ExIt Fig. 9", "greedy search by split", "figure-9", exitMLE, miniMLE, ""},
	{"ExIt Fig. 10", "greedy search by task", "figure-10", exitMLE, miniMLE, ""},
}

var fliptsCovered = []Covered{
	{"FlipTS Tab. 1", "accuracy after ten turns, and rollouts", "table-1", fliptsArms, miniFlipTS, ""},
	{"FlipTS Tab. 2", "first and last turn, Llama on MATH500", "table-2", "flipts/llama-8b flipts/llama-8b-trajectory", "flipts/small flipts/small-trajectory", ""},
	{"FlipTS Tab. 3", "first and last turn outside of mathematics", "table-3", "flipts/ood", "", "`policy.path` names each trained policy; the sets are not shipped"},
	{"FlipTS Tab. 4", "symbols", "table-4", fliptsArms, miniFlipTS, ""},
	{"FlipTS Tab. 5", "evaluation sets", "table-5", "flipts/qwen3-4b flipts/llama-8b flipts/ood", "flipts/small", ""},
	{"FlipTS Tab. 6", "the baselines in words", "", "", "", "it has no numbers"},
	{"FlipTS Fig. 1", "a self-refinement", "", "", "", diagram},
	{"FlipTS Fig. 2", "framework", "", "", "", diagram},
	{"FlipTS Fig. 3", "transitions in training", "figure-3", "flipts/trajectory", "flipts/small-trajectory", ""},
	{"FlipTS Fig. 4", "accuracy by turn", "figure-4", "flipts/qwen3-4b", "flipts/small", ""},
	{"FlipTS Fig. 5", "F2S and final success", "figure-5", "flipts/qwen3-4b flipts/final-success", "flipts/small flipts/small-final-success", ""},
	{"FlipTS Fig. 6", "sampling in training", "figure-6", "flipts/qwen3-4b flipts/final-success", "flipts/small flipts/small-final-success", ""},
	{"FlipTS Fig. 7", "SafetyBench by kind", "figure-7", "flipts/ood", "", "the set's answers are its authors'; those of its dev file are public"},
	{"FlipTS Fig. 8", "ξ_target", "figure-8", "flipts/ablation flipts/target-0.2 flipts/target-0.8", "flipts/small flipts/small-target-0.8", ""},
	{"FlipTS Fig. 9", "pool size M", "figure-9", "flipts/ablation flipts/pool-20000 flipts/pool-100000", "flipts/small flipts/small-pool-1600", ""},
}

var aceCovered = []Covered{
	{"AceGRPO Tab. 1", "submissions on MLE-bench Lite", "table-1", "ace/ace", aceMini, otherModels},
	{"AceGRPO Tab. 2", "ablations", "table-2", "ace/whole-200 ace/without-buffer ace/without-sampling", "ace/mini/*", ""},
	{"AceGRPO Tab. 3", "hyperparameters of buffer and sampling", "", "ace/ace", "", settingsPage},
	{"AceGRPO Tab. 4", "hyperparameters of GRPO", "", "ace/ace", "", settingsPage},
	{"AceGRPO Tab. 5", "hyperparameters of the optimizer", "", "ace/ace", "", settingsPage},
	{"AceGRPO Fig. 1", "the loop", "", "", "", diagram},
	{"AceGRPO Fig. 2", "framework", "", "", "", diagram},
	{"AceGRPO Fig. 3", "first valid submissions", "figure-3", "ace/ace", aceMini, ""},
	{"AceGRPO Fig. 4", "medals over time", "figure-4, figure-4-seconds", "ace/ace", aceMini, "over time: of evaluations with a budget (evaluation.seconds)"},
	{"AceGRPO Fig. 5", "valid submissions and rewards in training", "figure-5, figure-5-right", "ace/ace", aceMini, ""},
}

var mlerlCovered = []Covered{
	{"MLE-RL Tab. 1", "submissions on MLE-bench Lite", "tables-1-3-5-6", "mlerl/mlerl mlerl/without-agent", mlerlMini, otherModels},
	{"MLE-RL Tab. 2", "all of MLE-bench", "table-2", "mlerl/all-75", "", "75 competitions, which are not shipped"},
	{"MLE-RL Tab. 3", "self-distillation", "tables-1-3-5-6, table-2", "mlerl/mlerl mlerl/self-distillation mlerl/all-75", "mlerl/mini/mlerl mlerl/mini/self-distillation", "`lathe pool` gathers what several runs have selected"},
	{"MLE-RL Tab. 4", "what is learned from", "table-4", "mlerl/mlerl mlerl/all-valid mlerl/self-distillation mlerl/distillation-*", "mlerl/mini/mlerl mlerl/mini/all-valid mlerl/mini/distillation-*", ""},
	{"MLE-RL Tab. 5", "signed reward", "tables-1-3-5-6", "mlerl/mlerl mlerl/signed", "mlerl/mini/mlerl mlerl/mini/signed", ""},
	{"MLE-RL Tab. 6", "scaffolds", "tables-1-3-5-6", "mlerl/mlerl mlerl/reset mlerl/aide", "mlerl/mini/mlerl mlerl/mini/reset", ""},
	{"MLE-RL Tab. 7", "by competition", "table-7", "mlerl/mlerl", mlerlMini, ""},
	{"MLE-RL Fig. 1", "overview, with bars of Tab. 1", "", "", "", diagram + " of its own"},
	{"MLE-RL Fig. 2", "framework", "", "", "", diagram},
	{"MLE-RL Fig. 3", "submissions by rank and gain", "figure-3-a, figure-3-b, figure-3-shares", "mlerl/mlerl", mlerlMini, ""},
	{"MLE-RL Fig. 4", "memory and reset, with and without memory, first k submissions", "figure-4-left, figure-4-middle, figure-4-middle-seconds, figure-4-right", "mlerl/mlerl mlerl/reset", "mlerl/mini/mlerl mlerl/mini/reset", "over time: of evaluations with a budget (evaluation.seconds)"},
}

var rlmleCovered = []Covered{
	{"RL-MLE Tab. 1", "best of 128 on 12 tasks", "table-1, table-1-held-out, section-4-2", "rlmle/rlmle rlmle/aide", rlmleMini, oneOfEach + "; " + otherModels},
	{"RL-MLE Tab. 2", "agent scaffolds", "", "", "", "scores of other agents with closed models"},
	{"RL-MLE Tab. 3", "hyperparameters", "", "rlmle/rlmle", "", settingsPage},
	{"RL-MLE Tab. 4", "improve a previous solution", "table-4", "rlmle/rlmle", rlmleMini, "also by the kind of prompt in one run"},
	{"RL-MLE Tab. 5", "number of solutions in 24 hours", "table-5", "rlmle/aide", rlmleMini, ""},
	{"RL-MLE Tab. 6", "best of n samples", "table-6", "rlmle/rlmle", rlmleMini, "needs 256 programs of a task"},
	{"RL-MLE Tab. 7", "STaR", "table-7", "rlmle/star", rlmleMini, "the better half; SFT, DPO and RWR have no numbers in the paper"},
	{"RL-MLE Fig. 1", "best score over training, leaf-classification", "figure-7", "rlmle/rlmle", rlmleMini, ""},
	{"RL-MLE Fig. 2", "seconds of programs", "figure-8", "rlmle/ppo", rlmleMini, ""},
	{"RL-MLE Fig. 3", "a suboptimal solution", "", "", "", diagram},
	{"RL-MLE Fig. 4", "framework", "", "", "", diagram},
	{"RL-MLE Fig. 5", "instrumentation", "", "", "", diagram},
	{"RL-MLE Fig. 6", "improvements", "", "", "", diagram},
	{"RL-MLE Fig. 7", "best score over time", "figure-7, figure-7-seconds", "rlmle/rlmle rlmle/aide", rlmleMini, ""},
	{"RL-MLE Fig. 8", "durations, with and without weights", "figure-8", "rlmle/ppo rlmle/ppo-durations rlmle/rlmle rlmle/oversample-*", "rlmle/mini/rlmle rlmle/mini/without-durations rlmle/mini/oversample-drop", "oversample-* drop or carry late programs, without which there is no bias"},
	{"RL-MLE Fig. 9", "instrumentation, with and without", "figure-9", rlmleArms, "rlmle/mini/rlmle rlmle/mini/without-instrumentation", ""},
	{"RL-MLE Fig. 10", "score by task", "figure-10", "rlmle/rlmle", rlmleMini, ""},
	{"RL-MLE Fig. 11", "a program before instrumentation", "", "", "", diagram},
	{"RL-MLE Fig. 12", "a program after it", "", "", "", diagram},
	{"RL-MLE Fig. 13", "a program", "", "", "", diagram},
	{"RL-MLE Fig. 14", "a program", "", "", "", diagram},
}

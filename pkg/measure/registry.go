package measure

// The files of a run that measures read.
const (
	readsEvaluations = "eval/*/*.parquet"
	readsScores      = "iter/*/score/*.parquet, iter/*/plan.parquet"
	readsPlans       = "iter/*/plan.parquet, tasks.parquet"
	readsManifests   = "manifests"
)

// The units of measures.
const (
	shareUnit   = "share"
	percentage  = "%"
	countUnit   = "count"
	secondsUnit = "s"
)

var (
	bySetName = map[string]string{"set": "set"}
	byTaskID  = map[string]string{"task": "task_id"}
	ofBy      = map[string]string{"": "of", "set": "of", "task": "of"} // of files that have all groupings, with their name in "by"
)

// All lists the measures: first the keys of summary.json, after which a name may
// have the keys and places inside, as in accuracy_by_step.4; then the tables, with the
// column and perhaps the group, as in transitions.f2s.
var All = []Measure{
	{Name: "accuracy_before", Unit: shareUnit, Reads: readsEvaluations},
	{Name: "accuracy_before_standard_error", Unit: shareUnit, Reads: readsEvaluations},
	{Name: "accuracy_after", Unit: shareUnit, Reads: readsEvaluations},
	{Name: "accuracy_after_standard_error", Unit: shareUnit, Reads: readsEvaluations},
	{Name: "accuracy_gain", Unit: shareUnit, Reads: readsEvaluations},
	{Name: "accuracy_gain_standard_error", Unit: shareUnit, Reads: readsEvaluations},
	{Name: "greedy_accuracy_before", Unit: shareUnit, Reads: readsEvaluations},
	{Name: "greedy_accuracy_after", Unit: shareUnit, Reads: readsEvaluations},
	{Name: "accuracy_by_step_before", Unit: shareUnit, Source: "ExIt Fig. 3", Reads: readsEvaluations},
	{Name: "delta_k", Unit: shareUnit, Source: "ExIt §5.3", Reads: readsEvaluations},
	{Name: "delta_k_standard_error", Unit: shareUnit, Reads: readsEvaluations},
	{Name: "delta_k_before", Unit: shareUnit, Source: "ExIt §5.3", Reads: readsEvaluations},
	{Name: "delta_k_before_standard_error", Unit: shareUnit, Reads: readsEvaluations},
	{Name: "corrections_before", Unit: countUnit, Source: "ExIt Fig. 4", Reads: readsEvaluations},
	{Name: "accuracy_by_level", Unit: shareUnit, Reads: readsEvaluations},
	{Name: "milestones", Unit: shareUnit, Source: "RL-MLE §3.3", Reads: readsEvaluations},
	{Name: "accuracy_by_set", Unit: shareUnit, Source: "ExIt Tab. 1", Reads: readsEvaluations},
	{Name: "evaluation_problems", Unit: countUnit, Reads: "recipe.yaml"},
	{Name: "evaluation_samples", Unit: countUnit, Reads: "recipe.yaml"},
	{Name: "evaluation_steps", Unit: countUnit, Reads: "recipe.yaml"},
	{Name: "evaluation_temperature", Unit: "", Reads: "recipe.yaml"},
	{Name: "iterations", Unit: countUnit, Reads: "recipe.yaml"},
	{Name: "iterations_done", Unit: countUnit, Reads: readsManifests},
	{Name: "left_out_shards", Unit: countUnit, Reads: "iter/*/closing.json"},
	{Name: "host_count", Unit: countUnit, Reads: readsManifests},
	{Name: "wall_seconds", Unit: secondsUnit, Reads: readsManifests},
	{Name: "wall_seconds_by_stage", Unit: secondsUnit, Reads: readsManifests},
	{Name: "stages", Unit: secondsUnit, Reads: readsManifests},
	{Name: "tails", Unit: secondsUnit, Reads: readsManifests},
	{Name: "late_files", Unit: secondsUnit, Reads: readsManifests},
	{Name: "orchestration_seconds_per_iteration", Unit: secondsUnit, Reads: readsManifests},
	{Name: "tokens", Unit: "tokens", Reads: readsManifests},
	{Name: "outcomes", Unit: countUnit, Reads: readsManifests},
	{Name: "ledger", Unit: "segments", Reads: "iter/*/ledger.parquet"},
	{Name: "warm_start_loss", Unit: "nats per token", Reads: readsManifests},
	{Name: "sandboxes", Unit: countUnit, Reads: readsManifests},
	{Name: "room", Unit: countUnit, Reads: readsManifests},
	{Name: "reward_audit", Unit: countUnit, Reads: readsManifests},
	{Name: "scores_taken", Unit: countUnit, Reads: readsManifests},
	{Name: "iteration_series", Unit: "", Reads: readsManifests + ", iter/*/ledger.parquet"},
	{Name: "policy_version", Unit: "", Reads: readsManifests},

	{
		Name: "accuracy_by_step", Unit: percentage, Source: "ExIt Tab. 1, Fig. 3; FlipTS Tab. 1, 2, 3 and 5, Fig. 4 and 5", Reads: readsEvaluations,
		SQL: true, GroupColumns: bySetName, XColumn: "step", heldOut: accuracyByStep,
	},
	{Name: "accuracy_by_version", Unit: percentage, Source: "FlipTS Fig. 8 and 9", Reads: readsEvaluations, SQL: true, XColumn: "policy_version", training: accuracyByVersion},
	{Name: "selected_version", Unit: percentage, Source: "", Reads: readsEvaluations, SQL: true, training: selectedVersion},
	{
		Name: "accuracy_by_kind", Unit: percentage, Source: "FlipTS Fig. 7", Reads: readsEvaluations,
		SQL: true, GroupColumns: map[string]string{"kind": "kind"}, heldOut: accuracyByKind,
	},
	{Name: "corrections", Unit: countUnit, Source: "ExIt §5.3", Reads: readsEvaluations, SQL: true, GroupColumns: bySetName, heldOut: correctionsOf},
	{Name: "net_corrections", Unit: countUnit, Source: "ExIt Fig. 4 and 8", Reads: readsEvaluations, SQL: true, GroupColumns: bySetName, XColumn: "step", heldOut: netCorrections},
	{
		Name: "submissions", Unit: percentage, Source: "AceGRPO Tab. 1 and 2; MLE-RL Tab. 1 to 6", Reads: readsEvaluations,
		SQL: true, GroupColumns: map[string]string{FirstAttempt: "set", AllAttempts: "set"}, heldOut: submissionsBySet,
	},
	{Name: "submissions_by_task", Unit: percentage, Source: "MLE-RL Tab. 7", Reads: readsEvaluations, heldOut: submissionsByTask},
	{Name: "first_valid", Unit: percentage, Source: "AceGRPO Fig. 3", Reads: readsEvaluations, SQL: true, GroupColumns: bySetName, heldOut: firstValid},
	{
		Name: "best_by_attempt", Unit: percentage, Source: "AceGRPO Fig. 4; MLE-RL Fig. 4; ExIt Fig. 5, 9 and 10", Reads: readsEvaluations,
		SQL: true, GroupColumns: ofBy, XColumn: "attempts", heldOut: bestByAttempt,
	},
	{Name: "best_by_step", Unit: percentage, Source: "ExIt Fig. 5, 9 and 10", Reads: readsEvaluations, heldOut: greedySearch},
	{Name: "best_by_seconds", Unit: percentage, Source: "AceGRPO Fig. 4", Reads: readsEvaluations, SQL: true, XColumn: "seconds", heldOut: bestBySeconds},
	{Name: "best_by_valid", Unit: percentage, Source: "MLE-RL Fig. 4", Reads: readsEvaluations, SQL: true, XColumn: "valid_submissions", heldOut: bestByValid},
	{
		Name: "memory_and_reset", Unit: percentage, Source: "MLE-RL Fig. 4", Reads: readsEvaluations,
		SQL: true, GroupColumns: map[string]string{"start": "start"}, XColumn: "attempts", heldOut: memoryAndReset,
	},
	{Name: "solutions", Unit: countUnit, Source: "RL-MLE Tab. 5", Reads: readsEvaluations, heldOut: solutionsByTask},
	{Name: "held_out_programs", Unit: "the task's", Source: "RL-MLE Tab. 1 and 7", Reads: readsEvaluations, SQL: true, GroupColumns: byTaskID, heldOut: heldOutPrograms},

	{Name: "first_answers", Unit: "reward", Source: "ExIt Fig. 1", Reads: readsScores + ", tasks.parquet", SQL: true, GroupColumns: map[string]string{"task": "task"}, XColumn: "iteration", training: firstAnswers},
	{Name: "sampled_instances", Unit: "", Source: "ExIt Fig. 5 and 6", Reads: readsPlans, SQL: true, XColumn: "iteration", training: sampledInstances},
	{Name: "distinct_instances", Unit: countUnit, Source: "ExIt Fig. 7", Reads: readsPlans, SQL: true, training: distinctInstances},
	{Name: "distances", Unit: "", Source: "ExIt Tab. 2 and 7", Reads: readsPlans, training: instanceDistances},
	{Name: "sampled_traces", Unit: countUnit, Source: "FlipTS Tab. 1", Reads: readsScores, SQL: true, training: sampledTraces},
	{Name: "transitions", Unit: percentage, Source: "FlipTS Fig. 3", Reads: readsScores, SQL: true, XColumn: "iteration", training: transitions},
	{Name: "sampling_dynamics", Unit: percentage, Source: "FlipTS Fig. 6; AceGRPO Fig. 5", Reads: "iter/*/batch.arrow.json", SQL: true, XColumn: "iteration", training: samplingDynamics},
	{Name: "kinds", Unit: percentage, Source: "AceGRPO Fig. 5", Reads: readsScores, SQL: true, GroupColumns: map[string]string{"kind": "kind"}, XColumn: "iteration", training: kinds},
	{Name: "environments", Unit: "", Reads: readsScores + ", iter/*/ledger.parquet", SQL: true, GroupColumns: map[string]string{"environment": "environment"}, XColumn: "iteration", training: environments},
	{Name: "selection", Unit: percentage, Source: "MLE-RL Tab. 4", Reads: "iter/*/ledger.parquet, or the pool", SQL: true, training: selection},
	{Name: "programs", Unit: secondsUnit, Source: "RL-MLE Fig. 8, 9 and 10", Reads: readsScores, SQL: true, GroupColumns: ofBy, XColumn: "iteration", training: trainingPrograms},
	{Name: "programs_by_task", Unit: "the task's", Source: "RL-MLE Tab. 1, 4 and 6", Reads: readsScores, SQL: true, GroupColumns: byTaskID, training: programsByTask},
	{Name: "best_programs", Unit: "the task's", Source: "RL-MLE Fig. 7", Reads: readsScores + ", manifests", SQL: true, GroupColumns: byTaskID, XColumn: "iteration", training: bestPrograms},
	{Name: "rank_distribution", Unit: percentage, Source: "MLE-RL Fig. 3", Reads: readsScores, SQL: true, XColumn: "from_percent", training: rankDistribution},
	{Name: "gain_distribution", Unit: percentage, Source: "MLE-RL Fig. 3", Reads: readsScores, SQL: true, XColumn: "from_points", training: gainDistribution},
	{Name: "thresholds", Unit: percentage, Source: "MLE-RL Fig. 3", Reads: readsScores, SQL: true, training: thresholds},
}

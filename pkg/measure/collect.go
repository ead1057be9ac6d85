package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/status"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// findings is a summary while it is made.
type findings struct {
	Summary
	*Rows
	tasks      []finishedTask         // of all iterations and evaluations
	iterations map[int][]finishedTask // without evaluations
}

// Summary sums up the run from its sealed files. A damaged file is an error; a missing one
// leaves what depends on it null.
func (r *Rows) Summary(ctx context.Context) (Summary, error) {
	if r.summary == nil {
		f := &findings{Rows: r, iterations: map[int][]finishedTask{}}
		if err := f.collect(ctx); err != nil {
			return Summary{}, fmt.Errorf("summing up run %q: %w", r.Dir, err)
		}
		r.summary = &f.Summary
	}
	return *r.summary, nil
}

func (f *findings) collect(ctx context.Context) error {
	if err := f.identify(); err != nil {
		return err
	}
	for k := 0; k <= f.Iterations; k++ {
		tasks, err := finishedTasks(ctx, f.Graph, nodes(f.Graph, k))
		if err != nil {
			return err
		}
		f.iterations[k] = tasks
		f.tasks = append(f.tasks, tasks...)
	}
	evaluated, err := finishedTasks(ctx, f.Graph, evaluations(f.Graph))
	if err != nil {
		return err
	}
	f.tasks = append(f.tasks, evaluated...)
	for _, part := range []func(context.Context) error{f.progress, f.account, f.measure, f.trace} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	f.clock()
	return nil
}

func (f *findings) identify() error {
	id, rec := f.Identity, f.Recipe
	composition, err := rec.Method()
	if err != nil {
		return err
	}
	f.Summary = Summary{
		Format: summaryFormat, RunID: id.RunID, Name: id.Name, Description: rec.Description, Seed: id.Seed,
		RecipeSHA256: f.Graph.RecipeSHA256, Preset: rec.Preset, Environment: rec.Env.String(), Curriculum: rec.Curriculum.Name, Composition: composition,
		BinaryVersion: id.BinaryVersion, Created: id.Created, Iterations: rec.Schedule.Iterations,
		Problems: rec.Evaluation.Problems, Samples: rec.Evaluation.Samples, Steps: rec.Evaluation.Steps,
		Temperature: rec.Evaluation.Temperature, Missing: map[string]string{}, Series: []Iteration{},
	}
	return nil
}

// progress says how far the run is and which policy came out.
func (f *findings) progress(ctx context.Context) error {
	state, err := status.ReadState(ctx, f.Run)
	if err != nil {
		return err
	}
	switch {
	case state == status.StateDone:
	case advance.HasSubmissions(f.Dir), state == status.StatePending && len(f.tasks) > 0:
		state = status.StateUnknown // Slurm was not asked, nor whoever resumed it
	}
	f.State = string(state)
	for version := 0; version <= f.Iterations; version++ {
		m, err := seal.Read(ctx, f.Dir.Policy(version), f.Graph.Reading(0))
		if errors.Is(err, seal.ErrNotSealed) {
			continue // or removed to save room
		}
		if err != nil {
			return err
		}
		f.PolicyVersion, f.Newest = &version, &m
		f.IterationsDone = version
	}
	const key = "policy_sha256"
	switch {
	case f.PolicyVersion == nil:
		f.missing("no policy version is sealed yet", key, "policy_version")
	case *f.PolicyVersion < f.Iterations:
		f.missing(fmt.Sprintf("policy v%06d is not sealed yet; the newest is v%06d", f.Iterations, *f.PolicyVersion), key)
	default:
		if f.PolicySHA256 = weightsDigest(f.Newest.Files); f.PolicySHA256 == nil {
			f.missing("the manifest of the policy's folder lists no weights", key)
		}
	}
	return nil
}

// weightsDigest is the identity of a policy's weights, from its manifest: the
// digest of the file that they are in, or of the adapter's, or for weights in
// several files what checkpoint.Digest makes of theirs.
func weightsDigest(files []seal.File) *string {
	shards := map[string]string{}
	for _, file := range files {
		switch {
		case file.Name == checkpoint.WeightsFile, file.Name == checkpoint.AdapterWeightsFile:
			return &file.SHA256
		case strings.HasPrefix(file.Name, "model-") && strings.HasSuffix(file.Name, ".safetensors"):
			shards[file.Name] = file.SHA256
		}
	}
	if len(shards) == 0 {
		return nil
	}
	sum := checkpoint.DigestOfFiles(shards)
	return &sum
}

// missing notes why the values of some keys are null.
func (f *findings) missing(reason string, keys ...string) {
	for _, key := range keys {
		f.Missing[key] = reason
	}
}

// measure reads the evaluations.
func (f *findings) measure(ctx context.Context) error {
	before := []string{"accuracy_before", "accuracy_by_step_before", "delta_k_before", "corrections_before"}
	after := []string{"accuracy_after", "accuracy_by_step", "delta_k", "corrections"}
	both := []string{"accuracy_gain", "accuracy_by_kind", "accuracy_by_version", "accuracy_by_set", "submissions"}
	if f.Problems == 0 {
		const reason = "the recipe evaluates no problems (evaluation.problems is 0)"
		f.missing(reason, before...)
		f.missing(reason, after...)
		f.missing(reason, both...)
		f.missing(reason, "greedy_accuracy_before", "greedy_accuracy_after")
		return nil
	}
	f.AccuracyBySet, f.Submissions = []SetAccuracy{}, []Submissions{}
	for _, m := range f.Recipe.Evaluation.Measured()[1:] {
		f.AccuracyBySet = append(f.AccuracyBySet, SetAccuracy{Set: m.Set, Problems: m.Problems, Samples: m.Samples, Steps: m.Steps, Temperature: m.Temperature})
	}
	var first, final []Answer // of policy v000000 and of the last version; nil unless all of them are sealed
	for _, version := range f.Graph.EvaluatedVersions() {
		rows, sealed, err := f.evaluation(ctx, version)
		if err != nil {
			return err
		}
		if sealed.Sealed < sealed.Shards {
			f.Unmeasured = append(f.Unmeasured, sealed)
			if version == 0 {
				f.missing(sealed.String(), append(before, "greedy_accuracy_before")...)
			}
			if version == f.Iterations {
				f.missing(sealed.String(), append(after, "greedy_accuracy_after")...)
			}
			continue
		}
		for i, set := range f.AccuracyBySet {
			own := filtered(rows, func(a Answer) bool { return a.Set == set.Set })
			f.AccuracyBySet[i].Versions = append(set.Versions, VersionOf(version, own, set.Steps))
		}
		rows = filtered(rows, func(a Answer) bool { return a.Set == string(env.Test) })
		f.Graded = f.Graded || slices.ContainsFunc(rows, func(a Answer) bool { return a.Score > 0 && a.Score < 1 })
		v := VersionOf(version, rows, f.Summary.Steps)
		f.AccuracyByVersion = append(f.AccuracyByVersion, v)
		if s := submissions(version, rows, f.Recipe.Evaluation.Seconds); s != nil {
			f.Submissions = append(f.Submissions, *s)
		}
		if version == 0 {
			first = rows
			f.AccuracyBefore, f.AccuracyBeforeStandardError, f.GreedyAccuracyBefore = v.Accuracy, v.StandardError, v.GreedyAccuracy
			f.AccuracyByStepBefore, f.CorrectionsBefore = v.AccuracyByStep, v.Corrections
			f.DeltaKBefore, f.DeltaKBeforeStandardError = v.DeltaK, v.DeltaKStandardError
		}
		if version == f.Iterations {
			final = rows
			f.AccuracyAfter, f.AccuracyAfterStandardError, f.GreedyAccuracyAfter = v.Accuracy, v.StandardError, v.GreedyAccuracy
			f.AccuracyByStep, f.Corrections = v.AccuracyByStep, v.Corrections
			f.DeltaK, f.DeltaKStandardError = v.DeltaK, v.DeltaKStandardError
		}
	}
	if err := f.choose(ctx); err != nil {
		return err
	}
	if f.AccuracyByVersion == nil {
		f.missing("no policy version has been evaluated whole yet", "accuracy_by_version", "accuracy_by_kind", "accuracy_by_level", "milestones")
	} else {
		f.AccuracyByKind = byKind(first, final)
		if f.AccuracyByKind == nil {
			f.missing("neither the first nor the last policy version has been evaluated whole yet", "accuracy_by_kind", "accuracy_by_level", "milestones")
		} else { // that no problem has a level, and no answer a milestone, is known
			f.AccuracyByLevel = append([]KindAccuracy{}, byLevel(first, final)...)
			f.Milestones = append([]KindAccuracy{}, milestones(first, final)...)
		}
	}
	if f.AccuracyGain, f.AccuracyGainStandardError = gained(paired(sampledAt(first, 0), sampledAt(final, 0))).parts(); f.AccuracyGain == nil {
		f.missing("it needs the accuracy before and after", "accuracy_gain")
	}
	f.explain()
	return nil
}

// choose finds the version that the validation sets select, once all are measured.
func (f *findings) choose(ctx context.Context) error {
	if len(f.Recipe.Evaluation.With(recipe.RoleValidation)) == 0 {
		return nil
	}
	if len(f.Unmeasured) > 0 {
		f.missing(f.Unmeasured[0].String(), "selected_version")
		return nil
	}
	values, err := selectedVersion(ctx, f.Rows)
	var absent Absent
	if errors.As(err, &absent) {
		f.missing(absent.Error(), "selected_version")
		return nil
	}
	if err != nil {
		return err
	}
	f.SelectedVersion = &Selection{int(values[0].Y), values[1].Y / 100, values[2].Y / 100}
	return nil
}

// explain gives a reason for what whole evaluations did not hold.
func (f *findings) explain() {
	because := func(null bool, key, reason string) {
		if _, known := f.Missing[key]; null && !known {
			f.Missing[key] = reason
		}
	}
	for _, v := range []struct {
		suffix           string
		accuracy, greedy *float64
		delta            *float64
		steps            []float64
	}{
		{"_before", f.AccuracyBefore, f.GreedyAccuracyBefore, f.DeltaKBefore, f.AccuracyByStepBefore},
		{"", f.AccuracyAfter, f.GreedyAccuracyAfter, f.DeltaK, f.AccuracyByStep},
	} {
		when := v.suffix
		if when == "" {
			when = "_after"
		}
		samples := "no sampled response could be scored"
		switch {
		case f.Samples == 0:
			samples = "the recipe samples no responses (evaluation.samples is 0)"
		case f.Room.Evaluation.NoRoom > 0:
			samples = "no held-out prompt left room for a response in the policy's context"
		}
		because(v.accuracy == nil, "accuracy"+when, samples)
		because(v.steps == nil, "accuracy_by_step"+v.suffix, samples)
		steps := samples
		switch {
		case f.Summary.Steps == 0:
			steps = "the recipe has no revisions (evaluation.steps is 0)"
		case v.accuracy != nil && f.Room.Evaluation.NoRoom > 0:
			steps = fmt.Sprintf("no prompt of revision %d left room for a response in the policy's context", f.Summary.Steps)
		}
		because(v.delta == nil, "delta_k"+v.suffix, steps)
		because(v.delta == nil, "corrections"+v.suffix, steps)
		greedy := "no greedy response could be scored"
		if !f.Recipe.Evaluation.Greedy {
			greedy = "the recipe evaluates no greedy responses (evaluation.greedy is false)"
		}
		because(v.greedy == nil, "greedy_accuracy"+when, greedy)
	}
}

// account counts tokens, outcomes and dispositions.
func (f *findings) account(ctx context.Context) error {
	ledger, err := rundir.ReadLedger(ctx, f.Run)
	if err != nil {
		return err
	}
	f.Ledger = ledger
	for _, count := range []struct {
		to     **int64
		key    string
		stage  graph.Stage
		metric string
	}{
		{&f.Tokens.Prompt, "prompt", graph.StageRollout, "prompt_tokens"},
		{&f.Tokens.Response, "response", graph.StageRollout, "response_tokens"},
		{&f.Tokens.ReadAgain, "read_again", graph.StageRollout, "tokens_read_again"},
		{&f.Tokens.Trained, "trained", graph.StageLearn, "trained_tokens"},
		{&f.Tokens.Learned, "learned", graph.StageLearn, "tokens"},
		{&f.Tokens.WarmStart, "warm_start", graph.StageWarm, "tokens"},
		{&f.Tokens.Evaluation, "evaluation", graph.StageEvaluate, "response_tokens"},
	} {
		for _, t := range f.tasks {
			if value, ok := t.metrics[count.metric]; ok && t.Stage == count.stage {
				if *count.to == nil {
					*count.to = new(int64)
				}
				**count.to += int64(value)
			}
		}
		if *count.to == nil {
			f.missing(fmt.Sprintf("no %s task is done", count.stage), "tokens."+count.key)
		}
	}
	f.WarmStartLoss, f.ScoresTaken = warmStartLoss(f.tasks), scoresTaken(f.tasks, f.Identity.Scores)
	f.Sandboxes = map[string]int{}
	for _, t := range f.tasks {
		switch t.Stage {
		case graph.StageRollout:
			f.Room.Training.Add(t.metrics)
		case graph.StageEvalRollout:
			f.Room.Evaluation.Add(t.metrics)
		}
		if t.Stage != graph.StageScore {
			continue
		}
		for under, n := range shard.Sandboxes(t.usage) {
			f.Sandboxes[under] += n
		}
		if f.Outcomes == nil {
			f.Outcomes = map[string]int{}
		}
		for _, outcome := range outcomes {
			f.Outcomes[string(outcome)] += int(t.metrics["outcome_"+string(outcome)])
		}
	}
	if f.Outcomes == nil {
		f.missing("no responses have been scored yet", "outcomes")
	}
	if f.RewardAudit = audit(f.tasks); f.RewardAudit == nil {
		f.missing("no responses have been scored yet, or by a version that kept no reasons", "reward_audit")
	}
	return nil
}

var outcomes = []shard.Outcome{
	shard.OutcomeOK, shard.OutcomeWrong, shard.OutcomeInvalid, shard.OutcomeTimeout, shard.OutcomeInfra, shard.OutcomePreempted,
}

// clock says how long everything took and where.
func (f *findings) clock() {
	window, ok := whole(f.tasks)
	if !ok {
		f.missing("nothing is sealed yet", "wall_seconds", "wall_seconds_by_stage", "stages", "tails", "host_count", "orchestration_seconds_per_iteration")
		return
	}
	seconds := window.seconds()
	f.WallSeconds = &seconds
	f.Stages = stageTimes(f.tasks)
	f.Tails, f.LateFiles = tails(f.tasks), lateFiles(f.tasks)
	f.WallSecondsByStage = map[string]float64{}
	for _, s := range f.Stages {
		f.WallSecondsByStage[s.Stage] = s.WallSeconds
	}
	hosts := map[string]bool{}
	for _, t := range f.tasks {
		for _, o := range t.outputs {
			hosts[o.manifest.Host] = true
		}
	}
	n := len(hosts)
	f.HostCount = &n
	wall, idle := orchestration(f.iterations, f.tasks, f.Iterations)
	var idles []float64
	for i := range f.Series {
		it := &f.Series[i]
		if w, ok := wall[it.Iteration]; ok {
			pause := idle[it.Iteration]
			it.WallSeconds, it.OrchestrationSeconds = &w, &pause
		}
		if it.Iteration <= f.IterationsDone && it.OrchestrationSeconds != nil {
			idles = append(idles, *it.OrchestrationSeconds)
		}
	}
	if len(idles) == 0 {
		f.missing("no iteration is done", "orchestration_seconds_per_iteration")
		return
	}
	m := Median(idles)
	f.OrchestrationSeconds = &m
}

// warmStartLoss is that of held-out rows: before the first step of the warm start, and after
// its last step that is sealed.
func warmStartLoss(tasks []finishedTask) *WarmStartLoss {
	var found *WarmStartLoss
	chunk := 0
	for _, t := range tasks {
		after, measured := t.metrics["held_out_loss"]
		if t.Stage != graph.StageWarm || !measured {
			continue
		}
		if found == nil {
			found = &WarmStartLoss{}
		}
		if before, first := t.metrics["held_out_loss_before"]; first {
			found.Before = &before
		}
		if t.Iteration >= chunk {
			chunk, found.After = t.Iteration, after
		}
	}
	return found
}

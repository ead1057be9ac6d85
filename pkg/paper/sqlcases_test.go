package paper

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// queriesOf are the numbers of papers that the files of analysis/ are held to, with runs that
// have them; whole are those of these runs that have everything that measures read.
func queriesOf(t *testing.T) (queries []heldTo, whole []string) {
	t.Helper()
	answers, many, targets := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "one"), t.TempDir()
	made(t, answers, byHand(0))
	const held = "data.held_out=[{name: sums, generate: {kinds: [add], levels: [1], count: 9, test_share: 0.25}}]"
	made(t, many, varied, "evaluation.samples=3", "evaluation.steps=3", "evaluation.seconds=40", held, "evaluation.sets=[{name: sums, problems: 2, steps: 1}]")
	selected := filepath.Join(t.TempDir(), "one")
	made(t, selected, varied, "evaluation.samples=3", "evaluation.steps=3", "evaluation.seconds=40", held, "evaluation.sets=[{name: sums, role: validation, problems: 2, steps: 1}]")
	for _, target := range []string{"0.2", "0.8"} {
		made(t, filepath.Join(targets, target), byHand(0), "curriculum.name=flipts", "factors=[]", "factors=[]", "scaffold.name=chain", "scaffold.steps=1", "curriculum.flipts.target="+target)
	}
	graded, pooled := filepath.Join(programsRun(t), "one"), filepath.Join(supervised(t), "one")
	type columns = map[string]string
	type only = map[string]any
	medals := columns{
		"valid (%)": "valid", "above median (%)": "above_median", "bronze (%)": "bronze", "silver (%)": "silver", "gold (%)": "gold", "any medal (%)": "any_medal",
		"HumanRank (%)": "humanrank", "HumanRank of MLE-Dojo (%)": "humanrank_mledojo",
	}
	both := columns{"any medal (%)": "any_medal", "HumanRank (%)": "humanrank"}
	return []heldTo{
		{file: "accuracy_by_step", run: many, paper: "exit", item: "table-1", group: "{set}", only: only{"step": 0.}, columns: columns{"{when}: first answer (%)": "accuracy"}, besides: []string{"revision 1 (%)", "revision 3 (%)", "Δ_1", "Δ_3"}},
		{file: "accuracy_by_step", run: many, paper: "exit", item: "table-1", group: "{set}", only: only{"step": 3.}, columns: columns{"{when}: revision {step} (%)": "accuracy", "{when}: Δ_{step}": "delta"}, besides: []string{"first answer (%)", "revision 1 (%)", "Δ_1"}},
		{file: "accuracy_by_step", run: answers, paper: "exit", item: "table-1", group: "{set}", only: only{"step": 1.}, columns: columns{"{when}: revision {step} (%)": "accuracy", "{when}: Δ_{step}": "delta"}, besides: []string{"first answer (%)"}},
		{file: "accuracy_by_step", run: many, paper: "exit", item: "figure-3", x: "step", group: "{set}", columns: columns{"score (%)": "accuracy"}},
		{file: "accuracy_by_step", run: many, paper: "exit", item: "figure-3-first-turn", x: "step", group: "{set}", columns: columns{"first turn right (%)": "first_turn"}},
		{file: "accuracy_by_step", run: answers, paper: "flipts", item: "table-1", before: "without training", group: "{set}", only: only{"step": 1.}, columns: columns{"{when} (%)": "accuracy"}, besides: []string{"traces sampled", "× the fewest"}},
		{file: "accuracy_by_step", run: answers, paper: "flipts", item: "table-2", before: "without training", group: "{set}", only: only{"step": 0.}, columns: columns{"{when}: Init (%)": "accuracy"}, besides: []string{"Turn-2 (%)"}},
		{file: "accuracy_by_step", run: answers, paper: "flipts", item: "table-2", before: "without training", group: "{set}", only: only{"step": 1.}, columns: columns{"{when}: Turn-2 (%)": "accuracy"}, besides: []string{"Init (%)"}},
		{file: "accuracy_by_step", run: many, paper: "flipts", item: "table-2", before: "without training", group: "{set}", only: only{"step": 1., "set": "sums"}, columns: columns{"{when}: Turn-2 (%)": "accuracy"}, besides: []string{"Init (%)", "Turn-4 (%)"}},
		{file: "accuracy_by_step", run: many, paper: "flipts", item: "table-5", group: "{set}", columns: columns{"problems": "problems", "samples": "samples"}, besides: []string{"steps"}},
		{file: "accuracy_by_step", run: answers, paper: "flipts", item: "figure-5", group: "{set}", only: only{"step": 1., "policy_version": 2.}, columns: columns{"accuracy after the last turn (%)": "accuracy"}},
		{file: "accuracy_by_step", run: many, paper: "flipts", item: "figure-4", x: "turn", group: "{set}", only: only{"policy_version": 2.}, columns: columns{"accuracy (%)": "accuracy"}},
		{file: "accuracy_by_version", run: filepath.Join(targets, "0.2"), paper: "flipts", item: "figure-8", x: "policy_version", columns: columns{"accuracy (%)": "accuracy"}},
		{file: "accuracy_by_kind", run: many, paper: "flipts", item: "figure-7", group: "{kind}", columns: columns{"{when} (%)": "accuracy"}},
		{file: "net_corrections", run: many, paper: "exit", item: "figure-8", x: "step", group: "{set}", columns: columns{"net corrections": "net_corrections", "net improvements": "net_improvements"}},
		{file: "sampled_instances", run: answers, paper: "exit", item: "figure-6", x: "iteration", columns: columns{"depth": "depth", "start turn": "start_turn", "level of the task": "level"}},
		{file: "sampled_instances", run: answers, paper: "exit", item: "figure-5-left", x: "iteration", columns: columns{"recency (iterations)": "recency", "starting depth": "starting_depth"}},
		{file: "distinct_instances", run: answers, paper: "exit", item: "figure-7", columns: columns{
			"distinct instances": "distinct_instances", "relative to the training set": "relative_to_training_set", "share of the sampled": "share_of_sampled",
		}},
		{file: "first_answers", run: many, paper: "exit", item: "figure-1", x: "iteration", group: "{task}", columns: columns{"reward": "reward"}},
		{file: "sampled_traces", run: many, paper: "flipts", item: "table-1", group: "all sets", columns: columns{"traces sampled": "traces"}, besides: []string{"(%)", "× the fewest"}},
		{file: "transitions", run: many, paper: "flipts", item: "figure-3", x: "iteration", columns: columns{"F2S (%)": "f2s", "S2S (%)": "s2s", "S2F (%)": "s2f", "F2F (%)": "f2f"}},
		{file: "sampling_dynamics", run: answers, paper: "flipts", item: "figure-6", x: "iteration", columns: columns{
			"F2S (%)": "f2s", "effective F2S (%)": "effective_f2s", "final success (%)": "final_success", "advantage other than 0 (%)": "nonzero_advantage",
		}},
		{file: "sampling_dynamics", run: graded, paper: "ace", item: "figure-5-right", x: "iteration", columns: columns{"reward": "reward"}},
		{file: "programs_by_task", run: many, paper: "rlmle", item: "table-1", group: "{task_id}", columns: columns{"first programs": "first_programs", "last programs": "last_programs", "programs each": "programs_each"}},
		{file: "programs_by_task", run: many, paper: "rlmle", item: "table-4", group: "{task_id}", columns: columns{"from scratch": "from_scratch", "improve previous": "improve_previous"}},
		{file: "programs_by_task", run: many, paper: "rlmle", item: "table-6", group: "{task_id}", columns: columns{"8 programs": "last_8", "64 programs": "last_64", "128 programs": "last_128", "256 programs": "last_256"}},
		{file: "held_out_programs", run: many, paper: "rlmle", item: "table-1-held-out", group: "{task_id}", columns: columns{"{when}": "best_score"}},
		{file: "held_out_programs", run: many, paper: "rlmle", item: "table-7", group: "{task_id}", only: only{"policy_version": 0.}, columns: columns{"mean score": "mean_score"}},
		{file: "best_programs", run: many, paper: "rlmle", item: "figure-7", x: "iteration", group: "{task_id}", columns: columns{"best score": "best_score"}},
		{file: "best_programs", run: many, paper: "rlmle", item: "figure-7-seconds", x: "seconds", group: "{task_id}", sparse: true, columns: columns{"best score": "best_score"}},
		{file: "programs", run: many, paper: "rlmle", item: "figure-8", x: "iteration", only: only{"by": "all"}, columns: columns{"seconds": "execute_seconds", "seconds of valid programs": "execute_seconds_of_valid"}},
		{file: "programs", run: many, paper: "rlmle", item: "figure-9", x: "iteration", only: only{"by": "all"}, columns: columns{"score, −10 if not valid": "score_or_minus_10"}},
		{file: "programs", run: many, paper: "rlmle", item: "figure-10", x: "iteration", group: "{of}", only: only{"by": "task"}, columns: columns{"score, −10 if not valid": "score_or_minus_10"}},
		{file: "submissions", run: many, paper: "ace", item: "table-1", group: "{set}, {when}", only: only{"chosen_of": "all attempts"}, columns: medals},
		{file: "submissions", run: many, paper: "ace", item: "table-2", only: only{"chosen_of": "all attempts", "policy_version": 2., "set": "test"}, columns: columns{"any medal (%)": "any_medal"}},
		{file: "submissions", run: many, paper: "mlerl", item: "tables-1-3-5-6", group: "{set}, {when}", only: only{"chosen_of": "all attempts", "set": "test"}, columns: medals, besides: []string{"first attempt alone"}},
		{file: "submissions", run: many, paper: "mlerl", item: "tables-1-3-5-6", group: "{set}, {when}, first attempt alone", only: only{"chosen_of": "first attempt", "set": "test"}, columns: medals, besides: []string{"before training", "after"}},
		{file: "submissions", run: many, paper: "mlerl", item: "table-2", group: "{set}, {when}", only: only{"chosen_of": "all attempts", "set": "sums"}, columns: medals},
		{file: "submissions", run: many, paper: "mlerl", item: "table-4", group: "{when}", only: only{"chosen_of": "all attempts", "set": "test"}, columns: columns{"above median (%)": "above_median", "any medal (%)": "any_medal", "HumanRank (%)": "humanrank"}, besides: []string{"data (%)"}},
		{file: "first_valid", run: many, paper: "ace", item: "figure-3", group: "{when}", only: only{"set": "all sets"}, columns: columns{
			"medal (%)": "medal", "HumanRank (%)": "humanrank", "number of the program": "number", "traces with one (%)": "with_valid",
		}},
		{file: "best_by_attempt", run: many, paper: "ace", item: "figure-4", x: "attempts", only: only{"by": "all"}, columns: both},
		{file: "best_by_attempt", run: many, paper: "mlerl", item: "figure-4-middle", x: "attempts", only: only{"by": "all"}, columns: both},
		{file: "best_by_attempt", run: many, paper: "exit", item: "figure-5-right", x: "step", only: only{"by": "all"}, columns: columns{"best score (%)": "quality"}},
		{file: "best_by_attempt", run: many, paper: "exit", item: "figure-9", x: "step", group: "{of}", only: only{"by": "set"}, columns: columns{"best score (%)": "quality"}},
		{file: "best_by_attempt", run: many, paper: "exit", item: "figure-10", x: "step", group: "{of}", only: only{"by": "task"}, columns: columns{"best score (%)": "quality"}},
		{file: "best_by_seconds", run: many, paper: "ace", item: "figure-4-seconds", x: "seconds", sparse: true, columns: columns{"any medal (%)": "any_medal"}},
		{file: "kinds", run: many, paper: "ace", item: "figure-5", x: "iteration", group: "{kind}", columns: columns{"valid (%)": "ok", "score": "reward"}, besides: []string{"reward"}},
		{file: "rank_distribution", run: many, paper: "mlerl", item: "figure-3-a", x: "from_percent", columns: columns{"submissions (%)": "submissions"}},
		{file: "gain_distribution", run: many, paper: "mlerl", item: "figure-3-b", x: "from_points", columns: columns{"submissions (%)": "submissions"}},
		{file: "thresholds", run: many, paper: "mlerl", item: "figure-3-shares", columns: columns{"not above the median (%)": "not_above_median", "no medal (%)": "no_medal", "gain at most 0.01 (%)": "gain_at_most_0_01"}},
		{file: "memory_and_reset", run: many, paper: "mlerl", item: "figure-4-left", x: "attempts", group: "{start}", columns: columns{"HumanRank (%)": "humanrank"}},
		{file: "best_by_valid", run: many, paper: "mlerl", item: "figure-4-right", x: "valid_submissions", columns: columns{"HumanRank (%)": "humanrank"}},
		{file: "selection", run: many, paper: "mlerl", item: "table-4", group: "after", columns: columns{"data (%)": "data"}, besides: []string{"HumanRank (%)", "above median (%)", "any medal (%)"}},
		{file: "pool_selection", run: pooled, paper: "mlerl", item: "table-4", group: "after", columns: columns{"data (%)": "data"}, besides: []string{"HumanRank (%)", "above median (%)", "any medal (%)"}},
	}, []string{selected, answers, many, graded}
}

// varied is a run on machine-learning tasks with something of everything: valid programs
// and others in attempts of one to three messages, some without a validation score, some
// that failed for a reason of ours, and two sets of held-out tasks of which one has fewer
// attempts.
func varied(_ *rundir.Run, train []string) content {
	random := rand.New(rand.NewPCG(1, 2))
	outcomes := []shard.Outcome{shard.OutcomeOK, shard.OutcomeOK, shard.OutcomeOK, shard.OutcomeInvalid, shard.OutcomeTimeout}
	message := func(outcome shard.Outcome, better float64) shard.EvaluationTurn {
		turn := shard.EvaluationTurn{Outcome: string(outcome), RewardParts: ranked(false, 0, 0, 0, 0), ExecuteSeconds: float64(1 + random.IntN(8))}
		if outcome == shard.OutcomeOK {
			turn.RawScore, turn.Score = float64(random.IntN(1000))/8, min(1, random.Float64()+better)
			turn.RewardParts = ranked(true, -turn.RawScore, random.Float64(), float64(random.IntN(4)), float64(random.IntN(6)))
			turn.RewardParts = turn.RewardParts[random.IntN(5)/4:] // a fifth says no validation score
		}
		return turn
	}
	some := func(last []shard.Outcome, better float64) (all []shard.EvaluationTurn) {
		for range random.IntN(3) {
			all = append(all, message(outcomes[random.IntN(len(outcomes))], better))
		}
		return append(all, message(last[random.IntN(len(last))], better))
	}
	failing := append(outcomes, shard.OutcomeInfra)
	kinds := []shard.Kind{shard.KindInitial, shard.KindImprove, shard.KindDebug}
	c := content{
		held:         map[int][]shard.EvaluationRow{},
		dispositions: [2][]shard.Fate{{shard.FateTrained, shard.FateDropped, shard.FateDropped}, {shard.FateMasked, shard.FateTrained, shard.FateDropped}},
		folded:       [2]map[string]float64{{}, {}},
	}
	for i := range 2 {
		for row := range 12 {
			c.plans[i] = append(c.plans[i], shard.Instance{TaskID: train[row*row%3], Kind: string(kinds[(row+i)%3]), Messages: said(fmt.Sprint(row))})
			for sample := range 4 {
				verdict := shard.Score{InstanceID: fmt.Sprintf("i%06d-%06d", i+1, row), Sample: int32(sample), Reward: random.Float64()}
				for step, m := range some(failing, 0) {
					verdict.Outcome = m.Outcome
					verdict.Turns = append(verdict.Turns, shard.TurnScore{
						Step: int32(step), Outcome: m.Outcome, RawScore: m.RawScore, NormalizedScore: m.Score, RewardParts: m.RewardParts, ExecuteSeconds: m.ExecuteSeconds,
					})
				}
				c.scores[i] = append(c.scores[i], verdict)
			}
		}
	}
	for version := range 3 {
		for _, of := range []struct {
			set, task string
			attempts  int
		}{{"test", "h", 4}, {"test", "i", 4}, {"sums", "s", 2}, {"sums", "t", 2}} {
			for sample := range 3 {
				for step := range of.attempts {
					turns := some(failing, float64(version)/10)
					own := turns[len(turns)-1]
					row := shard.EvaluationRow{
						TaskID: of.task, Set: of.set, Kind: of.set + shard.KindJoint + of.task, PolicyVersion: int32(version), Sample: int32(sample), Step: int32(step), AttemptKind: string(kinds[(step+sample)%2]),
						Outcome: own.Outcome, RawScore: own.RawScore, Score: own.Score, RewardParts: own.RewardParts, EarlierTurns: turns[:len(turns)-1],
					}
					for _, turn := range turns {
						row.ExecuteSeconds += turn.ExecuteSeconds
					}
					if own.Score > 0.5 {
						row.Milestones = []string{"first_turn"}
					}
					c.held[version] = append(c.held[version], row)
				}
			}
		}
	}
	return c
}

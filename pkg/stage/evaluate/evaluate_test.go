package evaluate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
)

func measure(r *stagetest.Rig, first, last int) []shard.EvaluationRow {
	r.Helper()
	rows, err := r.Measure(r.Policy(), first, last, 5)
	r.Check(err)
	return rows
}

// TestChains: each step's prompt holds the answer before it; a greedy chain
// comes first, then the samples; problems in order.
func TestChains(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "evaluation.steps=3", "evaluation.samples=2", "evaluation.greedy=true")
	rows := measure(r, 0, 16)
	tasks := r.Env.Set().Tasks(env.Test)
	if len(rows) != 16*3*4 {
		t.Fatalf("%d rows, want 16 problems × 3 chains × 4 answers", len(rows))
	}
	right := 0
	for i, row := range rows {
		task, chain, step := tasks[i/12], i/4%3-1, i%4
		if row.TaskID != task.ID || int(row.Sample) != chain || int(row.Step) != step || row.PolicyVersion != 5 || row.Kind != task.Kind {
			t.Fatalf("row %d is task %s chain %d step %d of version %d", i, row.TaskID, row.Sample, row.Step, row.PolicyVersion)
		}
		want := task.Question + "="
		if step > 0 {
			want += rows[i-1].Response + ";"
		}
		if row.Prompt != want {
			t.Errorf("row %d: prompt %q, want %q", i, row.Prompt, want)
		}
		if got, want := row.Score == 1, row.Response == task.Answer; got != want {
			t.Errorf("row %d: %q to %q scores %g", i, row.Response, row.Prompt, row.Score)
		}
		if row.Score == 1 {
			right++
		}
	}
	if right == 0 {
		t.Error("no answer is right: the test shows nothing of the scores")
	}
}

// TestEvaluationIsDeterministic: whatever the cut and the threads; another
// seed changes the samples and leaves the greedy chain alone.
func TestEvaluationIsDeterministic(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "evaluation.steps=2")
	whole := measure(r, 0, 7)
	r.Job.Threads = 2
	var cut []shard.EvaluationRow
	for _, c := range [][2]int{{0, 2}, {2, 3}, {3, 7}} {
		cut = append(cut, measure(r, c[0], c[1])...)
	}
	if diff := cmp.Diff(whole, cut); diff != "" {
		t.Errorf("rows (-whole +cut):\n%s", diff)
	}
	r.Recipe.Seed++
	changed := 0
	for i, row := range measure(r, 0, 7) {
		switch {
		case row.Sample == rollout.GreedySample && !cmp.Equal(row, whole[i]):
			t.Errorf("the greedy chain depends on the seed: %+v, was %+v", row, whole[i])
		case !cmp.Equal(row, whole[i]):
			changed++
		}
	}
	if changed == 0 {
		t.Error("another seed samples the same")
	}
}

func TestMoreProblemsThanThereAre(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	r.Recipe.Evaluation.Problems = 17
	_, err := r.Measure(r.Policy(), 0, 17, 0)
	if exitcode.Code(err) != exitcode.Usage {
		t.Errorf("problem 17 of 16: %v", err)
	}
}

// An attempt without room is none: its row has neither an answer nor a score.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	const filler = "################################################################"
	learned := stagetest.New(t)
	for name, test := range map[string]struct {
		prompt string
		steps  [3]bool // in which an answer is expected
	}{
		"improvements": {"env.prompts.improve={question}={previous_response};" + filler + filler, [3]bool{true, false, false}},
		"answers":      {"env.prompts.initial={question}=" + filler + filler, [3]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := stagetest.New(t, "evaluation.steps=2", "evaluation.samples=1", "evaluation.greedy=true", test.prompt)
			rows, err := r.Measure(learned.Policy(), 0, 4, 0)
			r.Check(err)
			if len(rows) != 4*2*3 {
				t.Fatalf("%d rows, want 4 problems × 2 chains × 3 answers", len(rows))
			}
			for i, row := range rows {
				step := i % 3
				answered := test.steps[step]
				if int(row.Step) != step || (row.Response != "") != answered || (row.ResponseTokens > 0) != answered || (row.Outcome != string(shard.OutcomeNoRoom)) != answered || !answered && row.Score != 0 {
					t.Errorf("row %d is step %d, %q: %s", i, row.Step, row.Response, row.Outcome)
				}
			}
		})
	}
}

package evaluate_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
)

// sets are two sets beside the test split: one of its own prompt, one sample and
// no steps, and one that leaves all but the number of problems to evaluation.
var sets = []string{
	"data.held_out=[{name: sums, generate: {kinds: [add], levels: [1], count: 9, test_share: 0.25}}, {name: less, generate: {kinds: [sub], levels: [1], count: 4, test_share: 0.25}}]",
	`env.prompts_of=[{set: less, initial: "{question}=?"}]`,
	"evaluation.problems=5", "evaluation.samples=2", "evaluation.steps=1", "evaluation.greedy=true",
	"evaluation.sets=[{name: less, problems: 3, samples: 1, steps: 0, greedy: false, top_k: 1}, {name: sums, problems: 9}]",
}

// TestSets: each set has its own n, K, prompt and sampling, and the test split has
// the rows that it has alone.
func TestSets(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, sets...)
	all := measure(r, 0, 5+3+9)
	counts := map[string]int{}
	var test []shard.EvaluationRow
	for _, row := range all {
		counts[fmt.Sprintf("%s, sample %d, step %d", row.Set, row.Sample, row.Step)]++
		if row.Set == string(env.Test) {
			test = append(test, row)
		}
		if row.Set == "less" {
			if task, _ := r.Env.Set().Task(row.TaskID); row.Prompt != task.Question+"=?" {
				t.Errorf("prompt %q to %q", row.Prompt, task.Question)
			}
		}
	}
	want := map[string]int{"less, sample 0, step 0": 3}
	for set, n := range map[string]int{"test": 5, "sums": 9} {
		for sample := -1; sample < 2; sample++ {
			for step := range 2 {
				want[fmt.Sprintf("%s, sample %d, step %d", set, sample, step)] = n
			}
		}
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	alone := stagetest.New(t, "evaluation.problems=5", "evaluation.samples=2", "evaluation.steps=1", "evaluation.greedy=true")
	if diff := cmp.Diff(measure(alone, 0, 5), test); diff != "" {
		t.Errorf("the test split (-alone +beside others):\n%s", diff)
	}

	// One set alone has the rows that it has among others; top_k 1 is greedy.
	less, err := r.Recipe.Evaluation.Of("less")
	r.Check(err)
	r.Recipe.Evaluation = less.Only()
	if diff := cmp.Diff(all[5*3*2:5*3*2+3], measure(r, 0, 3)); diff != "" {
		t.Errorf("the set less (-among others +alone):\n%s", diff)
	}
	greedy := less.Only()
	greedy.Greedy = true
	r.Recipe.Evaluation = greedy
	rows := measure(r, 0, 3)
	for i := 0; i < len(rows); i += 2 {
		if rows[i].Response != rows[i+1].Response {
			t.Errorf("greedy %q, of the most probable token alone %q", rows[i].Response, rows[i+1].Response)
		}
	}
}

// TestSetsThatAreNotThere: the message names the set.
func TestSetsThatAreNotThere(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"evaluation.sets=[{name: aime, problems: 3}]":   `evaluation.sets: the environment "math" has no set "aime" of held-out problems: name it in data.held_out`,
		"evaluation.sets=[{name: sums, problems: 300}]": `evaluation.sets: 300 problems of "sums" are asked for, it has 9`,
	} {
		r := stagetest.New(t, append(sets[:2:2], settings)...)
		_, err := r.Measure(r.Policy(), 0, 1, 0)
		if exitcode.Code(err) != exitcode.Usage || err.Error() != want {
			t.Errorf("%s: %v, want %q", settings, err, want)
		}
	}
}

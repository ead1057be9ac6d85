package rundir_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

func write[T shard.Row](t *testing.T, path string, rows []T) {
	t.Helper()
	if _, err := shard.Write(path, rows, nil, seal.AttemptFromEnv(), seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
}

// TestLedger: two iterations of two instances with two responses each; rows are written
// as instance/sample/segment, with the reason of those that are dropped.
func TestLedger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what          string
		plans         int
		ledgers       [][]string
		waiting       []string // after the first iteration; nil where batches are those of iterations
		want          rundir.Ledger
		problem       string
		batchSegments int
		mix           bool // of several environments
	}{
		{what: "nothing is planned"},
		{what: "nothing is decided", plans: 1, want: rundir.Ledger{Planned: 4, Pending: 4}},
		{
			what: "the first of two", plans: 2, ledgers: [][]string{{"a1/0/0", "a1/1/0 late", "b1/0/0", "b1/1/0 late"}},
			want: rundir.Ledger{Planned: 8, Segments: 4, Trained: 2, Dropped: map[string]int{"late": 2}, Pending: 4},
		},
		{
			what: "all, one by several segments and one by the other iteration", plans: 2,
			ledgers: [][]string{{"a1/0/0", "a1/0/1 constant_group", "a1/1/0", "b1/0/0"}, {"b1/1/0", "a2/0/0", "a2/1/0", "b2/0/0", "b2/1/0"}},
			want:    rundir.Ledger{Planned: 8, Segments: 9, Trained: 8, Dropped: map[string]int{"constant_group": 1}},
		},
		{
			what: "a segment is missing", plans: 2, ledgers: [][]string{{"a1/0/1", "a1/1/0", "b1/0/0", "b1/1/0"}, {"a2/0/0", "a2/1/0", "b2/0/0"}},
			want: rundir.Ledger{Planned: 8, Segments: 7, Trained: 7, Pending: 2}, problem: "every iteration is closed and 2 responses have no disposition",
		},
		{
			what: "one twice", plans: 1, ledgers: [][]string{{"a1/0/0", "a1/0/0 late", "a1/1/0", "b1/0/0", "b1/1/0"}},
			want: rundir.Ledger{Planned: 4, Segments: 5, Trained: 4, Dropped: map[string]int{"late": 1}}, problem: "instance a1 sample 0 has more than one disposition of segment 0",
		},
		{
			what: "one of no plan", plans: 1, ledgers: [][]string{{"a1/0/0", "c1/0/0", "a1/1/0", "b1/0/0", "b1/1/0"}},
			want: rundir.Ledger{Planned: 4, Segments: 4, Trained: 4}, problem: "instance c1 sample 0 has a disposition and is in no plan",
		},
		{
			what: "some wait", plans: 1, batchSegments: 5, ledgers: [][]string{{"a1/0/0 constant_group", "b1/0/0 late", "b1/1/0 late"}}, waiting: []string{"a1/0/1", "a1/1/0"},
			want: rundir.Ledger{Planned: 4, Segments: 3, Dropped: map[string]int{"constant_group": 1, "late": 2}, Pending: 2, Waiting: 2},
		},
		// Until its ledger is there an iteration has decided nothing.
		{what: "some wait, says an iteration that is not decided", plans: 1, batchSegments: 5, waiting: []string{"a1/0/1"}, want: rundir.Ledger{Planned: 4, Pending: 4}},
		{
			what: "environments", plans: 1, mix: true, ledgers: [][]string{{"a1/0/0 late", "a1/1/0 late", "b1/0/0 late", "b1/1/0 empty"}},
			want: rundir.Ledger{Planned: 4, Segments: 4, Dropped: map[string]int{"late": 3, "empty": 1}, DroppedOf: map[string]map[string]int{"late": {"envA": 2, "envB": 1}, "empty": {"envB": 1}}},
		},
	} {
		d := graph.Dir(t.TempDir())
		r := &rundir.Run{Dir: d, Graph: graph.Graph{Dir: d}}
		r.Recipe.Schedule.Iterations, r.Recipe.Rollout.Group, r.Recipe.Schedule.BatchSegments = 2, 2, recipe.BatchSegments(c.batchSegments)
		if c.mix {
			r.Recipe.Env.Settings = &recipe.Mix{}
		}
		r.Graph.Recipe = r.Recipe
		id := func(text string) (instance string, sample, segment int32, reason string) {
			text, reason, _ = strings.Cut(text, " ")
			parts := strings.Split(text, "/")
			return parts[0], int32(parts[1][0] - '0'), int32(parts[2][0] - '0'), reason
		}
		for k := 1; k <= c.plans; k++ {
			number := string(rune('0' + k))
			write(t, d.Plan(k), []shard.Instance{{InstanceID: "a" + number, Env: "envA"}, {InstanceID: "b" + number, Env: "envB"}})
		}
		for k, texts := range c.ledgers {
			var rows []shard.LedgerRow
			for _, text := range texts {
				instance, sample, segment, reason := id(text)
				row := shard.LedgerRow{InstanceID: instance, Sample: sample, Segment: segment, Fate: string(shard.FateTrained)}
				if reason != "" {
					row.Fate, row.Reason = string(shard.FateDropped), reason
				}
				rows = append(rows, row)
			}
			write(t, d.Ledger(k+1), rows)
		}
		if c.waiting != nil {
			var rows []shard.Waiting
			for _, text := range c.waiting {
				instance, sample, segment, _ := id(text)
				rows = append(rows, shard.Waiting{InstanceID: instance, Sample: sample, Segment: segment})
			}
			write(t, d.Waiting(1), rows)
		}
		got, err := rundir.ReadLedger(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if c.problem != "" {
			c.want.Problems = []string{c.problem}
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
		// Of what is damaged nothing is counted.
		damaged := []string{}
		if c.plans > 0 {
			damaged = append(damaged, d.Plan(1))
		}
		if c.ledgers != nil && c.plans > 0 {
			damaged = append(damaged, d.Ledger(1))
			if c.waiting != nil {
				damaged = append(damaged, d.Waiting(1))
			}
		}
		for _, path := range slices.Backward(damaged) {
			if err := os.Truncate(path, 5); err != nil {
				t.Fatal(err)
			}
			if _, err := rundir.ReadLedger(t.Context(), r); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s, and %s is damaged: %v", c.what, path, err)
			}
		}
	}
}

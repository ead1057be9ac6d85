package advance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
)

func TestStops(t *testing.T) {
	t.Parallel()
	three := 3
	for _, c := range []struct {
		pause rundir.Pause
		node  string // end of a job's name
		want  bool
	}{
		{rundir.Pause{}, "rollout-000003", false},
		{rundir.Pause{Stop: true}, "rollout-000003", true},
		{rundir.Pause{Stop: true}, "learn-000003-step001", true},
		{rundir.Pause{Stop: true}, "gate", false}, // no task
		{rundir.Pause{Stop: true, Stage: "rollout"}, "rollout-000003-w02", true},
		{rundir.Pause{Stop: true, Stage: "rollout"}, "evalrollout-000003", false},
		{rundir.Pause{Stop: true, Iteration: &three}, "score-000003", true},
		{rundir.Pause{Stop: true, Iteration: &three}, "score-000004", false},
		{rundir.Pause{Stop: true, Stage: "score", Iteration: &three}, "rollout-000003", false},
		{rundir.Pause{Stage: "score", Iteration: &three}, "score-000003", false},
	} {
		if got := stops(c.pause, c.node); got != c.want {
			t.Errorf("%+v stops %s: %v, want %v", c.pause, c.node, got, c.want)
		}
	}
}

// TestCancel: controller jobs are cancelled first, then what the pause stops, or what
// waits, until nothing of the run is left and no controller job runs that may submit more.
func TestCancel(t *testing.T) {
	lookAgain = time.Millisecond
	t.Cleanup(func() { lookAgain = time.Second })
	const run = "smoke-00ff00ff"
	const all = "3 PENDING rollout-000001,1 PENDING gate,2 RUNNING gate,4 RUNNING score-000001"
	other, another := t.TempDir(), t.TempDir()
	for dir, id := range map[string]string{other: run, another: "x-00ff00ff"} {
		if err := os.WriteFile(graph.Dir(dir).Identity(), []byte(`{"run_id": "`+id+`"}`), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	stop, scores := rundir.Pause{Stop: true}, rundir.Pause{Stop: true, Stage: graph.StageScore}
	for name, c := range map[string]struct {
		pause rundir.Pause
		now   bool
		looks []string // the queue at each look, "ID STATE NODE", of which the last stays
		said  string   // to scancel
		asked int      // looks at the queue
		want  Cancelled
		err   string
	}{
		"a copy of the run":                       {stop, false, []string{"1 PENDING gate COPY,3 RUNNING rollout-000001 COPY,4 RUNNING score-000001 /gone,5 RUNNING score-000001 ANOTHER", "1 PENDING gate COPY"}, "4 5", 2, Cancelled{0, 2}, ""},
		"nothing is there":                        {stop, false, []string{""}, "", 1, Cancelled{}, ""},
		"what waits":                              {rundir.Pause{}, false, []string{all, ""}, "--state=PENDING 1 3", 2, Cancelled{1, 1}, ""},
		"everything":                              {stop, false, []string{all, ""}, "1 2 3 4", 2, Cancelled{2, 2}, ""},
		"one stage, at once":                      {scores, true, []string{all, ""}, "--signal=KILL --full 1 2 4;1 2 4", 2, Cancelled{2, 1}, ""},
		"an array that waits and runs":            {stop, false, []string{"3 PENDING rollout-000001,3 RUNNING rollout-000001", ""}, "3", 2, Cancelled{0, 1}, ""},
		"what a controller job submits meanwhile": {rundir.Pause{}, false, []string{"2 RUNNING gate", "2 RUNNING gate,3 PENDING rollout-000001", ""}, "--state=PENDING 3", 3, Cancelled{0, 1}, ""},
		"a controller job that stays":             {rundir.Pause{}, false, []string{"2 RUNNING gate"}, "", 10, Cancelled{}, ""},
		"what is cancelled in vain":               {rundir.Pause{}, false, []string{"1 PENDING gate,3 PENDING rollout-000001"}, strings.Repeat(";--state=PENDING 1 3", 10)[1:], 10, Cancelled{1, 1}, "jobs 1, 3 are still in the queue after 10 attempts"},
		"a queue that nobody can ask":             {stop, false, []string{"munge"}, "", 1, Cancelled{}, "munge"},
		"a job that may not be cancelled":         {stop, false, []string{"13 PENDING gate"}, "13", 1, Cancelled{}, "denied"},
	} {
		folder := t.TempDir()
		for i, look := range c.looks {
			look = strings.NewReplacer("COPY", other, "ANOTHER", another, "PENDING ", "PENDING "+slurm.NamePrefix(run), "RUNNING ", "RUNNING "+slurm.NamePrefix(run), ",", "\n").Replace(look)
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprint("look", i)), []byte(look), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		scripts := fakeQueue("/dev/null")
		scripts["squeue"] = `cd ` + folder + `; echo >>asked; n=$(($(wc -l <asked) - 1)); [ -e look$n ] || n=` + fmt.Sprint(len(c.looks)-1) + `
case $(<look$n) in munge) echo munge >&2; exit 1;; esac; cat look$n`
		scripts["scancel"] = `echo "$*" >>` + folder + `/said; case "$*" in 13) echo "Access/permission denied" >&2; exit 1;; esac`
		got, err := Cancel(t.Context(), advancerOf(t, &rundir.Run{}, scripts).Cluster, graph.Dir(folder), run, c.pause, c.now)
		said, _ := os.ReadFile(filepath.Join(folder, "said")) // none when it was not called
		asked, _ := os.ReadFile(filepath.Join(folder, "asked"))
		if said := strings.ReplaceAll(strings.TrimSpace(string(said)), "\n", ";"); said != c.said || len(asked) != c.asked || got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v, want %+v, %q; scancel %s, want %s; %d looks, want %d", name, got, err, c.want, c.err, said, c.said, len(asked), c.asked)
		}
	}
}

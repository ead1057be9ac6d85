package report

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/run/advance"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// tasksOfArray and tasksInQueue are what the cluster takes: its MaxArraySize, and its
// limit on the jobs of a user.
const tasksOfArray, tasksInQueue = 1000, 2000

// longestGate bounds what a gate takes.
const longestGate = 5 * time.Second

// underWay makes a run of which so many iterations are done, with the records of all that
// was submitted for them, and of the next iteration's rollouts, all submitted, one in two
// is sampled and judged. Of the others, of each ten, one runs, one waits and eight have
// failed. There are no rollouts and scores of what is done: a gate does not look at them.
func underWay(b *testing.B, shards, done int) *fixture {
	b.Helper()
	f := newFixture(b, fmt.Sprintf("rollout.shards=%d", shards), fmt.Sprintf("rollout.prompts=%d", shards),
		fmt.Sprintf("schedule.iterations=%d", done+1), "schedule.gradient_units=1")
	f.begin()
	all := make([]int, shards)
	for n := range all {
		all[n] = n
	}
	job := 10_000_000 // its number
	submit := func(stage graph.Stage, k int, shards []int) []slurm.Job {
		b.Helper()
		var arrays []slurm.Job
		n := graph.Node{Stage: stage, Iteration: k}
		for attempt := 0; attempt*tasksOfArray < len(shards); attempt++ {
			part := shards[attempt*tasksOfArray : min(len(shards), (attempt+1)*tasksOfArray)]
			array := slurm.Job{ID: fmt.Sprint(job), Stage: string(stage), Iteration: k, Array: true, Shards: part}
			gate := slurm.Job{ID: fmt.Sprint(job + 1), Stage: slurm.GateStage, Shards: []int{0}}
			job += 2
			f.note("submitted", fmt.Sprintf("%s.%d.json", n, attempt), advance.Submission{
				Stage: stage, Iteration: k, Attempt: attempt, Jobs: []slurm.Job{array}, Gate: &gate, Submitted: second(float64(job)),
			})
			f.note("claims", fmt.Sprintf("%s.%d", n, attempt), "a")
			arrays = append(arrays, array)
		}
		return arrays
	}
	for k := 1; k <= done; k++ {
		submit(graph.StageRollout, k, all)
		submit(graph.StageScore, k, all)
		submit(graph.StageBuffer, k, []int{0})
		submit(graph.StageLearn, k, []int{0})
		f.closing(closing.Closing{Iteration: k, Shards: shards, Included: all})
		f.buffer(k, 1, 2, nil, nil)
		f.learn(k, 2, 3)
	}
	var states, names strings.Builder
	k := done + 1
	for _, array := range submit(graph.StageRollout, k, all) {
		for i, n := range array.Shards {
			state := "FAILED|256"
			switch {
			case n%2 == 0:
				state = "COMPLETED|0"
				f.sample(k, n, "a", [2]float64{100, 103}, [2]float64{104, 105})
			case n%20 == 1:
				state = "RUNNING|0"
			case n%20 == 3:
				state = "PENDING|0"
			}
			fmt.Fprintf(&states, "%s_%d|%s|0|1700000000|1700000100|n%d|None|\n", array.ID, i, state, n%100)
			if state == "RUNNING|0" || state == "PENDING|0" {
				fmt.Fprintf(&names, "%s%s\n", slurm.NamePrefix(f.run.Identity.RunID), graph.Node{Stage: graph.StageRollout, Iteration: k})
			}
		}
	}
	fakeSlurm(b, states.String(), names.String())
	return f
}

// note writes a record into a folder of the run's jobs.
func (f *fixture) note(folder, name string, what any) {
	f.t.Helper()
	content, err := json.MarshalIndent(what, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Join(f.run.Dir.Jobs(), folder), 0o777)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(f.run.Dir.Jobs(), folder, name), content, 0o666)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// fakeSlurm puts scripts on PATH in place of Slurm's commands: squeue knows some tasks by
// their states, and the names of what is queued; everything is taken.
func fakeSlurm(b *testing.B, states, names string) {
	b.Helper()
	folder := b.TempDir()
	for name, content := range map[string]string{
		"states": states, "names": names,
		"scontrol": fmt.Sprintf("#!/bin/bash\necho 'MaxArraySize = %d'\necho 'MaxJobCount = 100000'\n", tasksOfArray),
		"sbatch":   "#!/bin/bash\ncat >/dev/null; echo 99999999\n",
		"scancel":  "#!/bin/bash\n",
		"squeue":   fmt.Sprintf("#!/bin/bash\ncase \" $* \" in *\" -j \"*) cat %[1]s/states;; *\" -r \"*) cat %[1]s/names;; esac\n", folder),
	} {
		must.Do(b, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o777))
	}
	b.Setenv("PATH", folder+":"+os.Getenv("PATH"))
}

// advanceOnce is what a gate does, after which the run is as before: it takes back the
// arrays that it submitted.
func advanceOnce(ctx context.Context, r *rundir.Run) error {
	profile := site.Default()
	profile.MaxSubmit = tasksInQueue
	cluster, err := slurm.Open(profile)
	if err != nil {
		return err
	}
	a := &advance.Advancer{
		Run: r, Cluster: cluster, Site: site.Resolved{Site: profile}, Attempt: seal.AttemptFromEnv(), Version: "test", Log: func(string, ...any) {},
	}
	result, err := a.Advance(ctx)
	if err != nil {
		return err
	}
	tasks := 0
	for _, s := range result.Submitted {
		for _, job := range s.Jobs {
			tasks += len(job.Shards)
		}
		for _, path := range []string{fmt.Sprintf("submitted/%s.%d.json", s.Node(), s.Attempt), fmt.Sprintf("claims/%s.%d", s.Node(), s.Attempt)} {
			if err := os.Remove(filepath.Join(r.Dir.Jobs(), path)); err != nil {
				return err
			}
		}
	}
	shards := r.Recipe.Rollout.Shards
	// One shard in ten is in the queue; four in ten have failed, and as many of them as the
	// queue has room for are submitted again, with the plan of evaluations.
	if live, most := shards/10, tasksInQueue-shards/10; tasks < min(4*shards/10, most-10) || tasks > 4*shards/10+1 || result.Live != live+tasks {
		return fmt.Errorf("%d tasks were submitted, %d live", tasks, result.Live)
	}
	return nil
}

// BenchmarkAdvance is all that a gate does, but for Slurm's own part: by shards of an
// iteration, and by iterations that are done.
//
//	go test ./pkg/report -run NONE -bench Advance -benchtime 1x
func BenchmarkAdvance(b *testing.B) {
	for _, shards := range []int{100, 1000, 10_000} {
		for _, done := range []int{0, 10, 100, 1000} {
			b.Run(fmt.Sprintf("shards=%d/done=%d", shards, done), func(b *testing.B) {
				f := underWay(b, shards, done)
				// What was done is pruned by the gates that see it, one policy at a time.
				must.Do(b, advanceOnce(b.Context(), f.run))
				for b.Loop() {
					timed(b, f.run, "advance", shards)
				}
			})
		}
	}
}

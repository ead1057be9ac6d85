package advance

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/internal/runtest"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/site"
)

// noted is a Slurm of scripts that gives jobs the ids 901, 902 and so on and notes every
// command that changes something. Commands that match the bash pattern fail fail with
// the words words; jobs are "ID STATE [REASON]" of the queue, names the names in it.
func noted(t *testing.T, r *rundir.Run, fail, words string, names []string, jobs ...string) (a *Advancer, commands func() []string) {
	t.Helper()
	folder := t.TempDir()
	log := filepath.Join(folder, "log")
	head := `command="${0##*/} $*"; fails() { case "$command" in ` + cmp.Or(fail, "nothing") + `) echo "` + words + `" >&2; exit 1;; esac; }
`
	var queue strings.Builder
	for _, job := range jobs {
		fields := append(strings.Fields(job), "None")
		exit, start, end := 0, "1000", "2000"
		if fields[1] == "FAILED" {
			exit = 256
		}
		fmt.Fprintf(&queue, "%s|%s|%d|0|%s|%s|n1|%s|\n", fields[0], fields[1], exit, start, end, fields[2])
	}
	for name, text := range map[string]string{"queue": queue.String(), "names": strings.Join(names, "\n"), "next": "901"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	a = advancerOf(t, r, map[string]string{
		"sbatch": head + `s=$(cat); [[ $s =~ job-name=[^[:space:]]*-[0-9a-f]{8}-([a-z0-9-]+) ]]; name=${BASH_REMATCH[1]}
command="sbatch $name ${*:3}"
array=; [[ $s =~ --array=([0-9-]+) ]] && array=" ${BASH_REMATCH[1]}"
case "$1" in --test-only) command="try $name$array"; echo "$command" >>` + log + `; fails; exit;; esac
echo "$command" >>` + log + `; fails; id=$(<` + folder + `/next); echo $((id + 1)) >` + folder + `/next; echo $id`,
		"scontrol": head + `fails; case $1 in update) echo "$command" >>` + log + `;; *) echo "MaxArraySize = 1001
MaxJobCount = 10000";; esac`,
		"scancel": head + `echo "$command" >>` + log + `; fails`,
		"squeue":  head + `fails; case "$command" in *" -j "*) echo "$(<` + folder + `/queue)";; *) echo "$(<` + folder + `/names)";; esac`,
	})
	a.Site.Path = sitePath(r.Dir) // as a controller job has it
	due := regexp.MustCompile(`now\+3[0-9]{3}$`)
	a.Log = func(format string, args ...any) {
		file, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		if err == nil {
			_, err = fmt.Fprintf(file, "log: "+format+"\n", args...)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			t.Error(err)
		}
	}
	return a, func() []string {
		content, _ := os.ReadFile(log) // none when nothing was called
		_ = os.Remove(log)
		var lines []string
		for line := range strings.Lines(string(content)) {
			line = strings.ReplaceAll(strings.TrimSpace(line), string(r.Dir), "RUN")
			lines = append(lines, due.ReplaceAllString(line, "now+DUE"))
		}
		return lines
	}
}

// copied is a run like another, in a folder of its own, which a controller job has been
// in: its site profile is there.
func copied(t *testing.T, r *rundir.Run) *rundir.Run {
	t.Helper()
	same := *r
	same.Dir = graph.Dir(filepath.Join(t.TempDir(), "run"))
	same.Graph.Dir = same.Dir
	if err := errors.Join(os.CopyFS(string(same.Dir), os.DirFS(string(r.Dir))), os.WriteFile(sitePath(same.Dir), nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	return &same
}

// noteTimed notes a job where the last gate, the watchdog or the alarm of a run is noted.
func noteTimed(t *testing.T, path string, gate any) {
	t.Helper()
	if err := seal.ReplaceJSON(path, gate, seal.AttemptFromEnv()); err != nil {
		t.Fatal(err)
	}
}

func jobOf(id string) slurm.Job {
	return slurm.Job{ID: id, Shards: slurm.Shards{0}, Submitted: time.Now()}
}

// TestAdvance: what one look at a run does, command by command. Of the run, iteration 1 is
// done, and so are rollouts 0 and 1 of the second, whose scores are ready; rollouts 2 and
// 3 are tasks 112_2 and 112_3, and 113 is the gate behind them.
func TestAdvance(t *testing.T) {
	base, jobs := history(t, 1)
	rollouts, scores := runtest.Node(graph.StageRollout, 2), runtest.Node(graph.StageScore, 2)
	if got := jobs[rollouts]; got[0] != "112" || got[1] != "113" {
		t.Fatalf("rollouts are jobs %v", got)
	}
	const (
		dog     = "sbatch gate --begin=now+600"
		comment = "scontrol update JobId=901 Comment=lathe RUN: 1 of 3 iterations learned, "
		limit   = "sbatch: error: AssocMaxSubmitJobLimit" // which all jobs of a user share
	)
	live := []string{"112_2 RUNNING", "112_3 PENDING"}
	waits := append([]string{"113 PENDING"}, live...)
	attempt := seal.AttemptFromEnv()
	claimNext := func(t *testing.T, r *rundir.Run, n graph.Node, known ...int) {
		t.Helper()
		if number, won, err := claim(r.Dir, n, known, attempt); err != nil || !won || number != len(known) {
			t.Fatal(number, won, err)
		}
	}
	claimNext(t, base, rollouts)
	claimed := func(t *testing.T, a *Advancer) { // by another process
		t.Helper()
		claimNext(t, a.Run, scores)
	}
	scored := func(t *testing.T, a *Advancer) {
		t.Helper()
		runtest.BoardOf(t, a.Run.Graph).Seal(scores, 0, 1)
	}
	byShard := func(a *Advancer) {
		a.Run.Recipe.Schedule.CloseAfterSeconds, a.Run.Recipe.Schedule.Late = 3900, "drop"
		a.Run.Graph.Recipe = a.Run.Recipe
	}
	watchdog := func(t *testing.T, a *Advancer) { // is this job
		t.Helper()
		noteTimed(t, watchdogPath(a.Run.Dir), jobOf("500"))
		a.Attempt.JobID = "500"
	}
	narrow := func(t *testing.T, a *Advancer) { // takes 8 jobs of a user
		t.Helper()
		profile := site.Default()
		profile.MaxSubmit = 8
		var err error
		if a.Cluster, err = slurm.Open(profile); err != nil {
			t.Fatal(err)
		}
	}
	// begun has the iteration begin now, which is closed with what is done in 3900 s, and
	// score 0 done.
	begun := func(t *testing.T, a *Advancer) {
		t.Helper()
		byShard(a)
		runtest.BoardOf(t, a.Run.Graph).Seal(scores, 0)
		for shard := range 2 { // whose manifests say when it began
			path, m := a.Run.Dir.Rollout(2, shard), a.Run.Graph.Expected(graph.Task{Node: rollouts, Shard: shard})
			m.Started = time.Now()
			err := seal.Remove(path)
			if err == nil {
				_, err = seal.WriteBytes(path, nil, attempt, m)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// again records more attempts at the rollouts, jobs 1001, 1002 and so on.
	again := func(t *testing.T, a *Advancer, times int) {
		t.Helper()
		known := []int{0}
		for i := 1; i <= times; i++ {
			claimNext(t, a.Run, rollouts, known...)
			known = append(known, i)
			at := time.Now().Add(-time.Minute)
			s := Submission{Stage: rollouts.Stage, Iteration: 2, Attempt: i, Submitted: at, Jobs: []slurm.Job{{ID: fmt.Sprint(1000 + i), Array: true, Shards: slurm.Shards{2, 3}}}}
			if err := writeSubmission(a.Run.Dir, s, attempt); err != nil {
				t.Fatal(err)
			}
		}
	}
	ended := func(state string, times int) []string {
		lines := []string{"112_2 " + state, "112_3 " + state}
		for i := 1; i <= times; i++ {
			lines = append(lines, fmt.Sprintf("%d_[0-1] %s", 1000+i, state))
		}
		return lines
	}
	for _, c := range []struct {
		name    string
		jobs    []string
		fail    string
		words   string
		names   []string
		prepare func(*testing.T, *Advancer)
		live    int
		want    []string
		err     string
	}{
		{
			name: "a gate waits", jobs: waits, live: 4,
			want: []string{dog, "sbatch score-000002", "sbatch gate --dependency=afterany:902", "log: submitted score-000002 attempt 0: 2 tasks, job 902", comment + "4 tasks under way"},
		},
		{
			name: "no gate waits and another process submits the scores", jobs: live, live: 2, prepare: claimed,
			want: []string{dog, comment + "2 tasks under way", "sbatch gate --dependency=afterany:112"},
		},
		{
			name: "a gate runs, which may be about to leave", jobs: append([]string{"113 RUNNING"}, live...), live: 2, prepare: claimed,
			want: []string{dog, comment + "2 tasks under way", "sbatch gate --dependency=afterany:112"},
		},
		{
			name: "the last gate waits", jobs: append([]string{"700 PENDING"}, live...), live: 2,
			prepare: func(t *testing.T, a *Advancer) {
				claimed(t, a)
				noteTimed(t, lastGatePath(a.Run.Dir), lastGate{Job: jobOf("700")})
			},
			want: []string{dog, comment + "2 tasks under way"},
		},
		{name: "nothing is ready", jobs: waits, live: 2, prepare: scored, want: []string{dog, comment + "2 tasks under way"}},
		{
			name: "nothing is live and nothing is ready", jobs: ended("FAILED", 0), err: "failed: ",
			prepare: func(t *testing.T, a *Advancer) {
				scored(t, a)
				for shard := 2; shard < 4; shard++ {
					rundir.WriteExitRecord(a.Run.Dir, graph.Task{Node: rollouts, Shard: shard}, 0, 0, rundir.ExitRecord{Code: exitcode.Data, Message: "damaged"})
				}
			},
		},
		{
			name: "the watchdog of a run that has failed", jobs: append([]string{"500 PENDING"}, ended("FAILED", 2)...), err: "failed: ",
			prepare: func(t *testing.T, a *Advancer) {
				scored(t, a)
				again(t, a, 2)
				noteTimed(t, watchdogPath(a.Run.Dir), jobOf("500"))
			},
			want: []string{"scancel 500"},
		},
		{
			name: "two failures of three", jobs: append([]string{"113 PENDING"}, ended("FAILED", 1)...), live: 2,
			prepare: func(t *testing.T, a *Advancer) { scored(t, a); again(t, a, 1) },
			want:    []string{dog, "sbatch rollout-000002", "sbatch gate --dependency=afterany:902", "log: submitted rollout-000002 attempt 2: 2 tasks, job 902", comment + "2 tasks under way"},
		},
		{
			name: "a hundred attempts, none of which counts", jobs: ended("PREEMPTED", 99), err: "failed: ",
			prepare: func(t *testing.T, a *Advancer) { scored(t, a); again(t, a, 99) },
		},
		{
			name: "ninety-nine", jobs: append([]string{"113 PENDING"}, ended("PREEMPTED", 98)...), live: 2,
			prepare: func(t *testing.T, a *Advancer) { scored(t, a); again(t, a, 98) },
			want:    []string{dog, "sbatch rollout-000002", "sbatch gate --dependency=afterany:902", "log: submitted rollout-000002 attempt 99: 2 tasks, job 902", comment + "2 tasks under way"},
		},
		{
			name: "nothing lives: a gate looks again later", fail: "sbatch*rollout*|sbatch*score*", words: limit, names: []string{"other"},
			want: []string{dog, "sbatch score-000002", comment + "0 tasks under way", "sbatch gate --begin=now+30"},
		},
		{
			name: "the queue has no place for the gate of an array", jobs: waits, live: 4, fail: `"sbatch gate --dependency"*`, words: limit, names: []string{"other"},
			want: []string{dog, "sbatch score-000002", "sbatch gate --dependency=afterany:902", "log: submitted score-000002 attempt 0: 2 tasks, job 902", comment + "4 tasks under way"},
		},
		{
			name: "the queue has no place for the watchdog", jobs: waits, live: 2, fail: `sbatch*begin*`, words: limit, names: []string{"other"}, prepare: claimed,
			want: []string{dog, "log: no controller job that checks the run again after 10m0s: submitting the controller job: submitting gate-000000, chunk 1 of 1: the queue is full: sbatch failed: " + limit},
		},
		{
			name: "Slurm refuses an array", jobs: waits, live: 2, fail: "sbatch*score*", words: "Invalid account", err: "submitting score-000002: ",
			want: []string{dog, "sbatch score-000002"},
		},
		{
			name: "Slurm refuses a gate", jobs: waits, live: 2, fail: `"sbatch gate --dependency"*`, words: "Invalid account", err: "submitting the controller job: ",
			want: []string{dog, "sbatch score-000002", "sbatch gate --dependency=afterany:902", "log: submitted score-000002 attempt 0: 2 tasks, job 902"},
		},
		{
			name: "the budget of the queue", jobs: waits, live: 3, names: strings.Fields(strings.Repeat("other ", 5)), // 8 - 5 - 2 for gates is 1
			prepare: narrow,
			want: []string{
				dog, "log: left for later: 1 task; the queue takes 8 jobs of yours, which all your runs share", "sbatch score-000002", "sbatch gate --dependency=afterany:902",
				"log: submitted score-000002 attempt 0: 1 task, job 902", comment + "3 tasks under way",
			},
		},
		{
			name: "a paused run", jobs: waits, live: 2, err: "was paused by me", want: []string{dog},
			prepare: func(t *testing.T, a *Advancer) {
				t.Helper()
				if err := (rundir.Pause{By: "me"}).Write(a.Run.Dir, attempt); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "no room on the disk", jobs: waits, live: 2, err: "score-000002 writes about", want: []string{dog},
			prepare: func(_ *testing.T, a *Advancer) { a.Needs = func(graph.Node) int64 { return 1 << 60 } },
		},
		{
			name: "a task that will never start", jobs: []string{"113 PENDING", "112_2 PENDING DependencyNeverSatisfied", "112_3 RUNNING"}, live: 2,
			prepare: claimed,
			want: []string{
				"log: cancelling job 112_2, which will never start: squeue: PENDING, reason DependencyNeverSatisfied, on n1", "scancel 112_2", dog,
				"sbatch rollout-000002", "sbatch gate --dependency=afterany:902", "log: submitted rollout-000002 attempt 1: 1 task, job 902", comment + "2 tasks under way",
			},
		},
		{
			name: "another site profile, of which the gate that waits is not told", jobs: append([]string{"500 PENDING"}, waits...), live: 2,
			prepare: func(t *testing.T, a *Advancer) {
				claimed(t, a)
				noteTimed(t, watchdogPath(a.Run.Dir), jobOf("500"))
				a.Site.Path, a.Site.YAML = "/elsewhere", []byte("a: 1\n")
			},
			want: []string{"try gate", "try warm-000001 0-0", "try buffer-000000 0-0", "try rollout-000001 0-3", "try score-000001 0-3", "try learn-000001 0-0", dog, comment + "2 tasks under way", "sbatch gate --dependency=afterany:112"},
		},
		{
			name: "the same site profile", jobs: append([]string{"500 PENDING"}, waits...), live: 2,
			prepare: func(t *testing.T, a *Advancer) {
				claimed(t, a)
				noteTimed(t, watchdogPath(a.Run.Dir), jobOf("500"))
				a.Site.Path = "/elsewhere"
			},
			want: []string{strings.Replace(comment, "901", "500", 1) + "2 tasks under way"},
		},
		{
			name: "jobs of the run that this one was copied from", jobs: append([]string{"500 PENDING", "700 PENDING"}, waits...), live: 4,
			prepare: func(t *testing.T, a *Advancer) {
				t.Helper()
				other := copied(t, a.Run).Dir.Jobs()
				of := func(job slurm.Job) slurm.Job { job.Script = filepath.Join(other, "x.sh"); return job }
				s, _ := readSubmission(a.Run.Dir, rollouts, 0)
				s.Jobs[0] = of(s.Jobs[0])
				if err := writeSubmission(a.Run.Dir, s, attempt); err != nil {
					t.Fatal(err)
				}
				noteTimed(t, watchdogPath(a.Run.Dir), of(jobOf("500")))
				noteTimed(t, lastGatePath(a.Run.Dir), lastGate{Job: of(jobOf("700"))})
			},
			want: []string{
				dog, "sbatch score-000002", "sbatch gate --dependency=afterany:902", "log: submitted score-000002 attempt 0: 2 tasks, job 902",
				"sbatch rollout-000002", "sbatch gate --dependency=afterany:904", "log: submitted rollout-000002 attempt 1: 2 tasks, job 904", comment + "4 tasks under way",
			},
		},
		{
			name: "the folder of the run has another name now, and its old one too", jobs: append([]string{"500 PENDING"}, waits...), live: 4,
			prepare: func(t *testing.T, a *Advancer) {
				t.Helper()
				link := filepath.Join(t.TempDir(), "link")
				if err := os.Symlink(string(a.Run.Dir), link); err != nil {
					t.Fatal(err)
				}
				job := jobOf("500")
				job.Script = filepath.Join(graph.Dir(link).Jobs(), "x.sh")
				noteTimed(t, watchdogPath(a.Run.Dir), job)
			},
			want: []string{"sbatch score-000002", "sbatch gate --dependency=afterany:901", "log: submitted score-000002 attempt 0: 2 tasks, job 901", strings.Replace(comment, "901", "500", 1) + "4 tasks under way"},
		},
		{
			name: "shards do not wait for each other", jobs: []string{"113 PENDING", "112_2 PENDING", "112_3 RUNNING"}, live: 3,
			prepare: begun,
			want: []string{
				dog, "sbatch gate --begin=now+DUE", "sbatch score-000002", "log: submitted score-000002 attempt 0: 1 task, job 903", comment + "3 tasks under way",
				"sbatch gate --dependency=afterany:112_3?afterany:112_2?afterany:903_0",
			},
		},
		{
			name: "a gate follows the first end", jobs: append([]string{"700 PENDING", "701 PENDING"}, live...), live: 2,
			prepare: func(t *testing.T, a *Advancer) {
				begun(t, a)
				claimed(t, a)
				noteTimed(t, lastGatePath(a.Run.Dir), lastGate{jobOf("700"), true})
				noteTimed(t, alarmPath(a.Run.Dir), jobOf("701"))
			},
			want: []string{dog, comment + "2 tasks under way"},
		},
		{
			name: "an alarm runs", jobs: append([]string{"700 PENDING", "701 RUNNING"}, live...), live: 3,
			prepare: func(t *testing.T, a *Advancer) {
				begun(t, a)
				noteTimed(t, lastGatePath(a.Run.Dir), lastGate{jobOf("700"), true})
				noteTimed(t, alarmPath(a.Run.Dir), jobOf("701"))
			},
			want: []string{
				dog, "sbatch gate --begin=now+DUE", "sbatch score-000002", "log: submitted score-000002 attempt 0: 1 task, job 903", comment + "3 tasks under way",
				"sbatch gate --dependency=afterany:112_2?afterany:112_3?afterany:903_0",
			},
		},
		{
			name: "an alarm is refused", jobs: waits, live: 2, fail: `"sbatch gate --begin=now+3"*`, words: "Invalid account", err: "submitting the controller job: ", prepare: begun,
			want: []string{dog, "sbatch gate --begin=now+DUE"},
		},
		{
			name: "a gate followed the first end, another waits", jobs: append([]string{"700 RUNNING", "701 PENDING", "113 PENDING"}, live...), live: 2,
			prepare: func(t *testing.T, a *Advancer) {
				byShard(a)
				claimed(t, a)
				noteTimed(t, lastGatePath(a.Run.Dir), lastGate{jobOf("700"), true})
				noteTimed(t, alarmPath(a.Run.Dir), jobOf("701"))
			},
			want: []string{dog, comment + "2 tasks under way", "sbatch gate --dependency=afterany:112_2?afterany:112_3"},
		},
		{
			name: "a gate that waits follows all of them", jobs: append([]string{"700 PENDING", "701 PENDING"}, live...), live: 2,
			prepare: func(t *testing.T, a *Advancer) {
				byShard(a)
				claimed(t, a)
				noteTimed(t, lastGatePath(a.Run.Dir), lastGate{Job: jobOf("700")})
				noteTimed(t, alarmPath(a.Run.Dir), jobOf("701"))
			},
			want: []string{dog, comment + "2 tasks under way", "sbatch gate --dependency=afterany:112_2?afterany:112_3"},
		},
		{
			name: "tasks that an iteration was closed without", jobs: []string{"113 PENDING", "112_2 FAILED", "112_3 PENDING"}, live: 1,
			prepare: func(t *testing.T, a *Advancer) {
				byShard(a)
				scored(t, a)
				if err := closing.Seal(a.Run, closing.Closing{Iteration: 2, Shards: 4, Included: []int{0, 1}, Late: []int{2, 3}}, attempt, "test"); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{
				dog, "log: cancelling 1 task that their iteration was closed without", "scancel 112_3",
				"sbatch buffer-000002", "sbatch gate --dependency=afterany:902", "log: submitted buffer-000002 attempt 0: 1 task, job 902", comment + "1 task under way",
			},
		},
		{
			name: "no gate waits but the one behind the scores", jobs: live, live: 4,
			want: []string{dog, "sbatch score-000002", "sbatch gate --dependency=afterany:902", "log: submitted score-000002 attempt 0: 2 tasks, job 902", comment + "4 tasks under way"},
		},
		{
			name: "the queue has no place for any gate", jobs: live, live: 4, fail: `"sbatch gate --dependency"*`, words: limit, names: []string{"other"}, err: "the queue is full",
			want: []string{dog, "sbatch score-000002", "sbatch gate --dependency=afterany:902", "log: submitted score-000002 attempt 0: 2 tasks, job 902", comment + "4 tasks under way", "sbatch gate --dependency=afterany:112:902"},
		},
		{
			name: "the watchdog is this job", jobs: append([]string{"500 RUNNING", "901 PENDING"}, waits...), live: 2, prepare: func(t *testing.T, a *Advancer) { watchdog(t, a); claimed(t, a) },
			want: []string{dog, comment + "2 tasks under way"},
		},
		{name: "the next watchdog is refused", jobs: waits, fail: "sbatch*begin*", words: "Invalid account", err: "submitting the controller job: ", prepare: watchdog, want: []string{dog}},
		{name: "a watchdog is refused", jobs: waits, live: 2, fail: "sbatch*begin*", words: "Invalid account", err: "submitting the controller job: ", want: []string{dog}},
		{name: "nobody tells of the cluster", jobs: waits, fail: `"scontrol show"*`, words: "munge", err: "munge"},
		{name: "nobody tells of the jobs", jobs: waits, fail: `squeue*" -j "*`, words: "munge", err: "munge"},
		{name: "nobody tells of the queue", jobs: waits, live: 2, fail: `"squeue -h -r"*`, words: "munge", err: "munge", prepare: narrow, want: []string{dog}},
		{
			name: "a job that will never start cannot be cancelled", jobs: []string{"112_2 PENDING DependencyNeverSatisfied"}, fail: "scancel*", words: "munge", err: "munge",
			want: []string{"log: cancelling job 112_2, which will never start: squeue: PENDING, reason DependencyNeverSatisfied, on n1", "scancel 112_2"},
		},
		{
			name: "a later stage would be refused", jobs: waits, live: 2, fail: "try*score*", words: "Invalid account", err: "a job of stage score (resources.stages.score: 1 core, ",
			prepare: func(_ *testing.T, a *Advancer) { a.Site.Path, a.Site.YAML = "/elsewhere", []byte("a: 1\n") },
			want:    []string{"try gate", "try warm-000001 0-0", "try buffer-000000 0-0", "try rollout-000001 0-3", "try score-000001 0-3"},
		},
		{
			name: "the site profile cannot be read", jobs: waits, live: 2, err: "site.yaml",
			prepare: func(t *testing.T, a *Advancer) {
				t.Helper()
				if err := errors.Join(os.Remove(sitePath(a.Run.Dir)), os.Mkdir(sitePath(a.Run.Dir), 0o777)); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "the warm start that is awaited cannot be read", jobs: waits, err: "warmstart",
			prepare: func(t *testing.T, a *Advancer) {
				t.Helper()
				if err := os.Mkdir(awaitedPath(a.Run.Dir), 0o777); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "the records of submissions cannot be listed", jobs: waits, err: "submitted",
			prepare: func(t *testing.T, a *Advancer) {
				t.Helper()
				if err := errors.Join(os.RemoveAll(submissionsFolder(a.Run.Dir)), os.WriteFile(submissionsFolder(a.Run.Dir), nil, 0o666)); err != nil {
					t.Fatal(err)
				}
			},
		},
	} {
		r := copied(t, base)
		a, commands := noted(t, r, c.fail, c.words, c.names, c.jobs...)
		if c.prepare != nil {
			c.prepare(t, a)
		}
		result, err := a.Advance(t.Context())
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || HasFailed(err) != (c.err == "failed: ") {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
		if slices.ContainsFunc(result.Submitted, func(s Submission) bool { return s.tasks() == 0 }) {
			t.Errorf("%s: an array counts as submitted that Slurm did not take", c.name)
		}
		if diff := gocmp.Diff(c.want, commands()); diff != "" || result.Live != c.live {
			t.Errorf("%s: %d tasks live, want %d; commands (-want +got):\n%s", c.name, result.Live, c.live, diff)
		}
	}
}

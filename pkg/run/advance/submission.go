package advance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor/slurm"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Submission is the record of one array that was handed to Slurm. It says
// where to look for its tasks; what is done is decided by seals.
type Submission struct {
	Stage     graph.Stage `json:"stage"`
	Iteration int         `json:"iteration"`
	Step      int         `json:"step"`
	Wave      int         `json:"wave"`
	Attempt   int         `json:"attempt"`
	Jobs      []slurm.Job `json:"jobs"`
	Gate      *slurm.Job  `json:"gate"`                // that follows it; nil when it could not be submitted, or shards go through waves
	Minutes   int         `json:"minutes,omitempty"`   // time limit that was asked for, if it is not the recipe's
	MemoryGB  float64     `json:"memory_gb,omitempty"` // the same of memory
	Submitted time.Time   `json:"submitted"`
}

// Node is the node whose tasks were submitted.
func (s Submission) Node() graph.Node {
	return graph.Node{Stage: s.Stage, Iteration: s.Iteration, Step: s.Step, Wave: s.Wave}
}

// tasks is the number of tasks that Slurm took.
func (s Submission) tasks() (n int) {
	for _, job := range s.Jobs {
		n += len(job.Shards)
	}
	return n
}

// all are the tasks that Slurm took, by its ids.
func (s Submission) all() iter.Seq2[slurm.TaskID, graph.Task] {
	return func(yield func(slurm.TaskID, graph.Task) bool) {
		for _, job := range s.Jobs {
			for i, id := range job.Tasks() {
				if !yield(id, graph.Task{Node: s.Node(), Shard: job.Shards[i]}) {
					return
				}
			}
		}
	}
}

// settled reports whether all that Slurm took of it has done its work.
func (s Submission) settled(ctx context.Context, v *survey.Inventory) (bool, error) {
	for _, t := range s.all() {
		if done, err := v.Settled(ctx, t, s.Submitted); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// A run that was copied has the id of the other, and the records of the jobs that work on
// the other.

// submittedFrom reports whether the script of a job lies in a folder, jobs of a run, or lay
// there when the folder had another name. What was submitted from elsewhere works on what
// lies there.
func submittedFrom(folder string, job slurm.Job) bool {
	return job.Script == "" || !otherFolder(filepath.Dir(job.Script), folder)
}

// isOf reports whether a job is one of a run, and not of another folder that has a run
// with the same id.
func isOf(job slurm.Queued, d graph.Dir, runID string) bool {
	if !strings.HasPrefix(job.Name, slurm.NamePrefix(runID)) {
		return false
	}
	if !otherFolder(job.Folder, string(d)) {
		return true
	}
	var there rundir.Identity
	content, err := plainfile.Read(graph.Dir(job.Folder).Identity(), plainfile.MaxDocument)
	return err != nil || json.Unmarshal(content, &there) != nil || there.RunID != runID
}

// otherFolder reports whether both are there and are not the same.
func otherFolder(a, b string) bool {
	if a == b { // as nearly always: nothing is asked
		return false
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && !os.SameFile(infoA, infoB)
}

func submissionsFolder(d graph.Dir) string { return filepath.Join(d.Jobs(), "submitted") }
func claimsFolder(d graph.Dir) string      { return filepath.Join(d.Jobs(), "claims") }

// claim reserves the next attempt at a node. Of two processes that advance a
// run at once, one gets it; the other leaves the node alone. known are the
// attempts that this process knew of when it asked Slurm: one that was
// submitted since is another's answer to the same question.
func claim(d graph.Dir, n graph.Node, known []int, attempt seal.Attempt) (number int, won bool, err error) {
	for {
		path := filepath.Join(claimsFolder(d), fmt.Sprintf("%s.%d", n, number))
		won, _, err = seal.Claim(path, []byte(attempt.Host+"\n"), attempt)
		if err != nil || won {
			return number, won, err
		}
		if _, recorded := readSubmission(d, n, number); recorded && !slices.Contains(known, number) || !recorded && fresh(path) {
			return number, false, nil // another process is at it, or has just been
		}
		number++
	}
}

// claimAge is how long a claim without a record stands: submitting takes
// seconds, and whoever died meanwhile must not hold the run up.
const claimAge = 2 * time.Minute

func fresh(path string) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()) < claimAge
}

const recordSuffix = ".json"

func submissionPath(d graph.Dir, n graph.Node, attempt int) string {
	return filepath.Join(submissionsFolder(d), fmt.Sprintf("%s.%d%s", n, attempt, recordSuffix))
}

// readSubmission reads a record. One that cannot be read is as good as none: its shards
// are submitted again.
func readSubmission(d graph.Dir, n graph.Node, attempt int) (Submission, bool) {
	var s Submission
	content, err := plainfile.Read(submissionPath(d, n, attempt), plainfile.MaxDocument)
	return s, err == nil && json.Unmarshal(content, &s) == nil
}

func writeSubmission(d graph.Dir, s Submission, attempt seal.Attempt) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return seal.Replace(submissionPath(d, s.Node(), s.Attempt), append(content, '\n'), attempt)
}

// recorded are the attempts at each node that have a record, as the names of the
// records say: a long run has many, and few of them are still to be read.
type recorded map[graph.Node][]int

func listSubmissions(d graph.Dir) (recorded, error) {
	entries, err := os.ReadDir(submissionsFolder(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listed := recorded{}
	for _, entry := range entries {
		name, isRecord := strings.CutSuffix(entry.Name(), recordSuffix)
		if n, attempt, ok := graph.ParseNode(name); ok && isRecord {
			listed[n] = append(listed[n], attempt)
		}
	}
	return listed, nil
}

// newest is the last iteration of which each stage was submitted.
func (r recorded) newest() map[graph.Stage]int {
	newest := map[graph.Stage]int{}
	for n := range r {
		newest[n.Stage] = max(newest[n.Stage], n.Iteration)
	}
	return newest
}

// read reads the records of the nodes that are wanted, oldest first.
func (r recorded) read(d graph.Dir, wanted func(graph.Node) bool) []Submission {
	var all []Submission
	for n, attempts := range r {
		if !wanted(n) {
			continue
		}
		for _, attempt := range attempts {
			if s, ok := readSubmission(d, n, attempt); ok {
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b Submission) int {
		return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.Node().String(), b.Node().String()), cmp.Compare(a.Attempt, b.Attempt))
	})
	return all
}

// ReadSubmissions lists the submissions of a run, oldest first.
func ReadSubmissions(d graph.Dir) ([]Submission, error) {
	listed, err := listSubmissions(d)
	return listed.read(d, func(graph.Node) bool { return true }), err
}

// Submitted says which task each job of a run was submitted for, by the id under which
// Slurm lists it.
func Submitted(d graph.Dir) (map[string]graph.Task, error) {
	all, err := ReadSubmissions(d)
	tasks := map[string]graph.Task{}
	for _, s := range all {
		for id, t := range s.all() {
			tasks[id.String()] = t
		}
	}
	return tasks, err
}

func forgivenPath(d graph.Dir) string { return filepath.Join(d.Jobs(), "forgiven") }

// Forgive forgets the failures of everything submitted so far, so that it is
// tried again.
func Forgive(d graph.Dir, attempt seal.Attempt) error {
	return seal.Replace(forgivenPath(d), []byte(time.Now().UTC().Format(time.RFC3339Nano)+"\n"), attempt)
}

// forgivenUntil is when failures were last forgiven; the zero time for never.
func forgivenUntil(d graph.Dir) time.Time {
	content, _ := plainfile.Read(forgivenPath(d), plainfile.MaxDocument)
	at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(content)))
	if err != nil {
		return time.Time{}
	}
	return at
}

// HasSubmissions reports whether a run was ever handed to Slurm.
func HasSubmissions(d graph.Dir) bool {
	listed, err := listSubmissions(d)
	return err == nil && len(listed) > 0
}

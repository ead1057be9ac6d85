package rundir_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
)

var rollout = graph.Task{Node: graph.Node{Stage: graph.StageRollout, Iteration: 2}, Shard: 1}

// TestPauses: which tasks a pause stops, what it says, and that one that cannot be read is
// one all the same.
func TestPauses(t *testing.T) {
	t.Parallel()
	two, three := 2, 3
	for _, c := range []struct {
		pause rundir.Pause
		stops bool
	}{
		{rundir.Pause{}, false},
		{rundir.Pause{Stage: graph.StageRollout}, false},
		{rundir.Pause{Stop: true}, true},
		{rundir.Pause{Stop: true, Stage: graph.StageRollout}, true},
		{rundir.Pause{Stop: true, Stage: graph.StageScore}, false},
		{rundir.Pause{Stop: true, Iteration: &two}, true},
		{rundir.Pause{Stop: true, Iteration: &three}, false},
		{rundir.Pause{Stop: true, Stage: graph.StageRollout, Iteration: &three}, false},
	} {
		if got := c.pause.Stops(rollout.Node); got != c.stops {
			t.Errorf("%+v stops %s: %v", c.pause, rollout.Node, got)
		}
	}
	d := graph.Dir(t.TempDir())
	if p, paused := rundir.ReadPause(d); paused {
		t.Errorf("a run that nobody paused: %+v", p)
	}
	want := rundir.Pause{By: "me@n1", Since: time.Unix(0, 0).UTC(), Stop: true, Stage: graph.StageScore, Iteration: &two}
	if err := want.Write(d, seal.AttemptFromEnv()); err != nil {
		t.Fatal(err)
	}
	p, paused := rundir.ReadPause(d)
	if diff := cmp.Diff(want, p); diff != "" || !paused || p.String() != "cancelled by me@n1 at 1970-01-01T00:00:00Z" {
		t.Errorf("%s (-want +got):\n%s", p, diff)
	}
	if p.Stop = false; p.String() != "paused by me@n1 at 1970-01-01T00:00:00Z" || exitcode.Code(p.Err(d)) != exitcode.Stopped {
		t.Errorf("%s: %v", p, p.Err(d))
	}
	if err := os.WriteFile(filepath.Join(d.Jobs(), "paused.json"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if p, paused := rundir.ReadPause(d); !paused || p.Stop || !strings.Contains(p.By, "cannot be read") {
		t.Errorf("a record that cannot be read: %+v, %v", p, paused)
	}
	if err := rundir.Resume(d); err != nil {
		t.Fatal(err)
	}
	if _, paused := rundir.ReadPause(d); paused {
		t.Error("a run that was resumed is paused")
	}
}

// TestWaits: notes of tasks that wait, by name; those that are old are left out.
func TestWaits(t *testing.T) {
	t.Parallel()
	d, now := graph.Dir(t.TempDir()), time.Unix(1e9, 0).UTC()
	attempt := seal.Attempt{Number: 3, Host: "n2"}
	old := graph.Task{Node: rollout.Node, Shard: 0}
	rundir.WriteWait(d, rollout, attempt, rundir.Wait{Message: "slow", Time: now.Add(-6*env.SlowAfter + 1)})
	rundir.WriteWait(d, old, attempt, rundir.Wait{Message: "killed", Time: now.Add(-6 * env.SlowAfter)})
	for name, text := range map[string]string{"notes.txt": `{"task": "x"}`, "broken.json": "{"} {
		if err := os.WriteFile(filepath.Join(d.Waits(), name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want := []rundir.Wait{{Task: "rollout-000002-00001", Attempt: 3, Host: "n2", Message: "slow", Time: now.Add(-6*env.SlowAfter + 1)}}
	if diff := cmp.Diff(want, rundir.ReadWaits(d, now)); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	rundir.RemoveWait(d, rollout)
	if waits := rundir.ReadWaits(d, now); len(waits) != 0 {
		t.Errorf("after it was removed: %+v", waits)
	}
}

// TestExitRecords: of a submission that was requeued the record of its last start counts;
// all are listed, the oldest first.
func TestExitRecords(t *testing.T) {
	t.Parallel()
	d := graph.Dir(t.TempDir())
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
	for restarts, seconds := range []int64{30, 10, 20} {
		rundir.WriteExitRecord(d, rollout, 1, restarts, rundir.ExitRecord{Task: rollout.String(), Code: 65 + restarts, Time: at(seconds)})
	}
	for _, c := range []struct{ submission, restarts, code int }{{1, 0, 67}, {1, 2, 67}, {0, 0, -1}, {1, 3, -1}} {
		record, there := rundir.ReadExitRecord(d, rollout, c.submission, c.restarts)
		if there != (c.code >= 0) || there && record.Code != c.code {
			t.Errorf("submission %d from restart %d on: %+v, %v", c.submission, c.restarts, record, there)
		}
	}
	var codes []int
	for _, record := range rundir.ReadExitRecords(d) {
		codes = append(codes, record.Code)
	}
	if !slices.Equal(codes, []int{66, 67, 65}) {
		t.Errorf("records in the order %v", codes)
	}
	if got := (rundir.ExitRecord{Code: exitcode.Unavailable, Device: true}).Cause(); got != executor.CauseDevice {
		t.Errorf("a device that failed: %s", got)
	}
	if got := (rundir.ExitRecord{Code: exitcode.Data}).Cause(); got != executor.CauseData {
		t.Errorf("bad data: %s", got)
	}
}

// TestRepairs: the queue holds each file once, sorted.
func TestRepairs(t *testing.T) {
	t.Parallel()
	d := graph.Dir(t.TempDir())
	for _, c := range []struct{ add, want []string }{
		{nil, nil}, {[]string{"b", "a"}, []string{"a", "b"}}, {[]string{"c", "a"}, []string{"a", "b", "c"}},
	} {
		if c.add != nil {
			if err := rundir.QueueRepairs(d, c.add, seal.AttemptFromEnv()); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := rundir.ReadRepairs(d); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("after %q: %q, %v", c.add, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(d.Jobs(), "repairs.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.ReadRepairs(d); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a queue that cannot be read: %v", err)
	}
	if err := rundir.QueueRepairs(d, []string{"d"}, seal.AttemptFromEnv()); exitcode.Code(err) != exitcode.Data {
		t.Errorf("it is added to: %v", err)
	}
	// A record that cannot be opened is none that is not there.
	d = graph.Dir(t.TempDir())
	for _, name := range []string{"repairs.json", "paused.json/x"} {
		if err := os.MkdirAll(filepath.Join(d.Jobs(), name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rundir.ReadRepairs(d); err == nil {
		t.Error("a folder is read as a queue")
	}
	if _, paused := rundir.ReadPause(d); !paused {
		t.Error("a pause that is a folder does not count")
	}
	if err := rundir.Resume(d); err == nil || !strings.Contains(err.Error(), "resuming a paused run: ") {
		t.Errorf("resumed although the pause stays: %v", err)
	}
}

// TestWalk: links to folders are followed, each folder once on its way, and folders that
// are left out are.
func TestWalk(t *testing.T) {
	t.Parallel()
	root, elsewhere := t.TempDir(), t.TempDir()
	for _, folder := range []string{"a", "b/c", "skipped/x"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(root, "a", "1"), filepath.Join(root, "b", "c", "2"), filepath.Join(elsewhere, "3")} {
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"d": elsewhere, "b/c/up": root, "dangling": "nothing", "file": filepath.Join(elsewhere, "3")} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	walk := func(d string) (visited []string, err error) {
		err = rundir.Walk(t.Context(), graph.Dir(d), func(path string, entry fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(d, path)
			if entry.IsDir() {
				rel += "/"
			}
			visited = append(visited, rel)
			if entry.Name() == "skipped" {
				return fs.SkipDir
			}
			return err
		})
		return visited, err
	}
	want := []string{"./", "a/", "a/1", "b/", "b/c/", "b/c/2", "d/", "d/3", "dangling", "file", "skipped/"}
	linked := filepath.Join(t.TempDir(), "run")
	if err := os.Symlink(root, linked); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{root, linked} {
		got, err := walk(d)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v; visited (-want +got):\n%s", err, diff)
		}
	}
	if _, err := walk(filepath.Join(root, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rundir.Walk(over, graph.Dir(root), func(string, fs.DirEntry, error) error { t.Error("visited"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a walk that nobody waits for: %v", err)
	}
	stop := errors.New("enough")
	visits := 0
	if err := rundir.Walk(t.Context(), graph.Dir(root), func(path string, _ fs.DirEntry, _ error) error {
		if visits++; filepath.Base(path) == "1" {
			return stop
		}
		return nil
	}); err != stop || visits != 3 {
		t.Errorf("after %d visits: %v", visits, err)
	}
}

// TestSweep: what killed writers left anywhere goes, but for folders that are being
// written.
func TestSweep(t *testing.T) {
	t.Parallel()
	d := graph.Dir(filepath.Join(t.TempDir(), ".run")) // the folder of a run may begin with a dot
	for _, path := range []string{d.Join("run.json"), d.Rollout(1, 0)} {
		w, err := seal.Create(path, seal.Attempt{JobID: seal.AttemptFromEnv().JobID, PID: 1 << 29})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
	}
	w, err := seal.CreateFolder(d.Policy(1), seal.Attempt{JobID: seal.AttemptFromEnv().JobID})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	inside, err := seal.Create(filepath.Join(w.Path(), "weights"), seal.Attempt{JobID: seal.AttemptFromEnv().JobID, PID: 1 << 29})
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Abort()
	if n, err := rundir.Sweep(t.Context(), d, seal.SweepOptions{MinAge: time.Hour}); n != 2 || err != nil {
		t.Errorf("%d files swept, %v", n, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rundir.Sweep(over, d, seal.SweepOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a sweep that nobody waits for: %v", err)
	}
}

// TestVisibility: only a job of Slurm waits for what other nodes have sealed.
func TestVisibility(t *testing.T) {
	for id, want := range map[string]time.Duration{"": 0, "77": rundir.VisibilityTimeout} {
		t.Setenv("SLURM_JOB_ID", id)
		if got := rundir.Visibility(); got != want {
			t.Errorf("job %q waits %v, want %v", id, got, want)
		}
	}
}

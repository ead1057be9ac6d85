package seal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

func TestTempNamesCanBeTakenApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := Attempt{
			JobID: rapid.String().Draw(t, "job"), TaskID: rapid.String().Draw(t, "task"),
			Number: rapid.IntRange(0, 1000).Draw(t, "number"), PID: rapid.IntRange(1, 1<<22).Draw(t, "pid"),
		}
		name := rapid.StringMatching(`[a-zA-Z0-9_.-]{1,20}`).Draw(t, "name")
		path := filepath.Join("dir", name)
		if filepath.Base(path) != name {
			return
		}
		got, ok := parseTemp(filepath.Base(a.tempPath(path)))
		if want := (temp{name: name, job: plain(a.JobID), pid: a.PID}); !ok || got != want {
			t.Fatalf("%+v, %v; want %+v", got, ok, want)
		}
	})
	for _, other := range []string{
		"plan.parquet", ".plan.parquet", ".tmp", ".x.tmp", ".plan.parquet.1_2.3.4.tmp", ".plan.1_2.x.4-1.tmp",
		".plan.12.3.4-1.tmp", "plan.1_2.3.4-1.tmp", ".plan.1_2.3.0-1.tmp", ".plan.1_2.3.x-1.tmp",
	} {
		if got, ok := parseTemp(other); ok {
			t.Errorf("%q is taken for a temporary name: %+v", other, got)
		}
	}
}

// deadPID is the id of a process that has ended.
func deadPID(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skipf("cannot run true(1) to get the id of an ended process: %v", err)
	}
	return cmd.Process.Pid
}

func TestSweep(t *testing.T) {
	t.Parallel()
	host := must.Get(os.Hostname())(t)
	local := localJob(host)
	dead := deadPID(t)
	const hour = time.Hour
	for _, c := range []struct {
		job  string
		pid  int
		age  time.Duration
		live map[string]bool
		gone bool
	}{
		{local, os.Getpid(), 48 * hour, nil, false}, // alive, however old
		{local, dead, 0, nil, true},
		{"local-elsewhere", dead, 0, nil, false},                    // perhaps alive there
		{"local-" + plain(host) + "-00000000", dead, 0, nil, false}, // in another container of that name, or before it was booted again
		{"local-" + plain(host) + "-00000000", dead, 2 * hour, nil, true},
		{"local-elsewhere", dead, 2 * hour, nil, true},
		{"local-elsewhere", dead, 0, map[string]bool{}, false},
		{"17", dead, 0, nil, false},
		{"17", dead, 2 * hour, nil, true},
		{"17", dead, 2 * hour, map[string]bool{"17": true}, false},
		{"17", dead, 0, map[string]bool{"18": true}, true},
	} {
		dir := t.TempDir()
		name := fmt.Sprintf(".00001.parquet.%s_0.0.%d-1.tmp", c.job, c.pid)
		put(t, filepath.Join(dir, name), nil)
		then := time.Now().Add(-c.age)
		must.Do(t, os.Chtimes(filepath.Join(dir, name), then, then))
		removed, err := Sweep(dir, SweepOptions{LiveJobs: c.live, MinAge: hour})
		if err != nil || len(removed) == 1 != c.gone || len(names(t, dir)) == 0 != c.gone {
			t.Errorf("%s, age %s, live jobs %v: removed %q, error %v, want gone %v", name, c.age, c.live, removed, err, c.gone)
		}
	}
	if removed, err := Sweep(filepath.Join(t.TempDir(), "none"), SweepOptions{}); err != nil || removed != nil {
		t.Errorf("a missing folder: %q, %v", removed, err)
	}
}

func TestSweepTakesFoldersAndNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "x"), "text")
	put(t, filepath.Join(dir, "orphan"), nil)
	put(t, filepath.Join(dir, ".hidden"), nil)
	left := filepath.Join(dir, ".v000001.17_0.0.1-1.tmp")
	must.Do(t, os.MkdirAll(filepath.Join(left, "sub"), 0o777))
	// The journal of x is done with; that of y is the work of whoever comes next.
	put(t, JournalPath(filepath.Join(dir, "x")), nil)
	put(t, JournalPath(filepath.Join(dir, "y")), nil)
	removed, err := Sweep(dir, SweepOptions{})
	if err != nil || !cmp.Equal(removed, []string{filepath.Base(left), "x.journal"}) {
		t.Errorf("removed %q, %v", removed, err)
	}
	if got, want := names(t, dir), []string{".hidden", "orphan", "x", "x.json", "y.journal"}; !cmp.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
}

func TestListAndOrphans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("00000.parquet"), "x")
	if _, err := WriteJSON(in("close.json"), 1, testAttempt, Manifest{}); err != nil {
		t.Fatal(err)
	}
	must.Get(writeFolder(t, in("v000001"), policyFiles))(t)
	write(t, in("damaged"), "x")
	put(t, ManifestPath(in("damaged")), nil)
	write(t, in("lost"), "x")
	os.Remove(in("lost"))
	put(t, in("00001.parquet"), nil)
	put(t, in("00002.parquet"), nil) // between its writer's two steps
	put(t, in(".00002.parquet.json.17_0.0.1-1.tmp"), nil)
	put(t, in("notes.json"), []byte("{}"))
	must.Do(t, os.Mkdir(in("score"), 0o777))
	sealed, err := List(dir)
	if want := []string{"00000.parquet", "close.json", "damaged", "lost", "v000001"}; err != nil || !cmp.Equal(sealed, want) {
		t.Errorf("List = %q, %v, want %q", sealed, err, want)
	}
	orphans, err := Orphans(dir)
	if want := []string{"00001.parquet", "notes.json"}; err != nil || !cmp.Equal(orphans, want) {
		t.Errorf("Orphans = %q, %v, want %q", orphans, err, want)
	}
	if sealed, err := List(in("none")); err != nil || sealed != nil {
		t.Errorf("List of a missing folder: %q, %v", sealed, err)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "report", "index.html")
	for _, text := range []string{"one", "two", "two"} {
		must.Do(t, Replace(path, []byte(text), testAttempt))
		if got := string(get(t, path)); got != text {
			t.Errorf("holds %q, want %q", got, text)
		}
		if got := names(t, filepath.Dir(path)); len(got) != 1 {
			t.Errorf("left behind %q", got)
		}
	}
	if err := Replace(filepath.Join(path, "x"), nil, testAttempt); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file takes the part of a folder: %v", err)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "x"), filepath.Join(dir, "v000001")
	write(t, file, "text")
	must.Get(writeFolder(t, folder, policyFiles))(t)
	put(t, filepath.Join(dir, "orphan"), nil)
	for _, path := range []string{file, folder, filepath.Join(dir, "orphan"), filepath.Join(dir, "none")} {
		if err := Remove(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left %q", got)
	}
	if err := Remove(dir); exitcode.Code(err) != exitcode.Bug {
		t.Errorf("a folder that was never sealed: %v, want our bug", err)
	}
}

// A folder that takes no files ends with exit code 74 and nothing left.
func TestUnwritableFolder(t *testing.T) {
	t.Parallel()
	// A file in the place of a folder refuses everybody, root too.
	blocked := filepath.Join(t.TempDir(), "file")
	put(t, blocked, nil)
	_, err := WriteBytes(filepath.Join(blocked, "x"), nil, testAttempt, Manifest{})
	if err == nil || !strings.Contains(err.Error(), "creating ") {
		t.Errorf("below a file: %v", err)
	}
	if os.Geteuid() == 0 {
		t.Log("root may write everywhere: the permission bits are left to TestReadOnlyFileSystem")
		return
	}
	dir := t.TempDir()
	must.Do(t, os.Chmod(dir, 0o555))
	for name, create := range map[string]func() error{
		"file":   func() error { _, err := Create(filepath.Join(dir, "x"), testAttempt); return err },
		"folder": func() error { _, err := CreateFolder(filepath.Join(dir, "x"), testAttempt); return err },
		"claim":  func() error { _, _, err := Claim(filepath.Join(dir, "x"), nil, testAttempt); return err },
	} {
		if err := create(); exitcode.Code(err) != exitcode.IO || !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s: %v, want exit code 74", name, err)
		}
	}
}

// A zombie writes nothing any more.
func TestRunning(t *testing.T) {
	t.Parallel()
	if !Running(os.Getpid()) {
		t.Error("this process does not run")
	}
	cmd := exec.Command("true")
	must.Do(t, cmd.Start())
	pid := cmd.Process.Pid
	must.Do(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)) // it stays for Wait to reap
	if Running(pid) {
		t.Errorf("process %d has ended and counts as running", pid)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("process %d was reaped, so this test shows nothing: %v", pid, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if Running(pid) {
		t.Errorf("process %d is gone and counts as running", pid)
	}
}

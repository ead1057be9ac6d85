package commandtest

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RunOn carries a run to its end through Slurm, by lathe advance with these
// arguments, killing up to so many on the way: lathe advance, whether a person or a
// controller job runs it, and tasks.
func (c *Chaos) RunOn(cluster *Cluster, dir string, most int, limit time.Duration, args ...string) {
	c.t.Helper()
	c.until = min(c.Kills, c.Done+most)
	began := time.Now()
	for finished := false; !finished; {
		advance := exec.Command(filepath.Join(cluster.Bin, "lathe"), append([]string{"advance", "--run", dir, "--executor", "slurm", "--site", "devcluster"}, args...)...)
		advance.Dir, advance.Env = cluster.root, cluster.Env
		var out bytes.Buffer
		advance.Stderr = &out
		if err := advance.Start(); err != nil {
			c.t.Fatal(err)
		}
		if c.Done < c.until {
			timer := time.AfterFunc(time.Duration(c.random.Int64N(int64(500*time.Millisecond))), func() { _ = advance.Process.Kill() })
			_ = advance.Wait() // it may have been killed
			if !timer.Stop() {
				c.killed("lathe advance")
			}
		} else if err := advance.Wait(); err != nil {
			c.t.Fatalf("lathe advance: %v\n%s", err, out.String())
		}
		for wait := time.Now().Add(3 * time.Second); time.Now().Before(wait) && (c.Done < c.until || !reported(dir)); time.Sleep(50 * time.Millisecond) {
			if pid, who := runningOf(dir, c.random); c.Done < c.until && pid != 0 && c.random.IntN(4) == 0 {
				c.kill(who, pid)
			}
		}
		age(c.t, filepath.Join(dir, "jobs", "claims"))
		finished = reported(dir)
		if time.Since(began) > limit {
			c.t.Fatalf("not done after %v, %v\n%s", time.Since(began), c.Killed, cluster.Must("lathe", "status", dir))
		}
	}
	// One that knows which jobs have ended sweeps what killed controller jobs have left.
	cluster.Must(filepath.Join(cluster.Bin, "lathe"), "advance", "--run", dir, "--executor", "slurm", "--site", "devcluster")
}

// KillOneOf kills, now and then and as long as there are kills left, a process of one
// of several runs that Slurm started, and makes the claims that it may leave old.
func (c *Chaos) KillOneOf(dirs []string) {
	dir := dirs[c.random.IntN(len(dirs))]
	if pid, who := runningOf(dir, c.random); c.Done < c.Kills && pid != 0 && c.random.IntN(4) == 0 {
		c.kill(who, pid)
	}
	age(c.t, filepath.Join(dir, "jobs", "claims"))
}

// AllReported reports whether runs are done.
func AllReported(dirs []string) bool {
	for _, dir := range dirs {
		if !reported(dir) {
			return false
		}
	}
	return true
}

// reported reports whether a run is done: the last controller job writes the report, whose
// last file the summary is.
func reported(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "report", "summary.json"))
	return err == nil
}

// runningOf finds a process of a run that Slurm started.
func runningOf(dir string, random *rand.Rand) (pid int, who string) {
	entries, _ := os.ReadDir("/proc")
	random.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	for _, entry := range entries {
		n, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil || !strings.Contains(string(line), "\x00"+dir+"\x00") {
			continue
		}
		if name, _, _ := strings.Cut(string(line), "\x00"); filepath.Base(name) == "lathe" {
			return n, "a controller job's lathe advance"
		}
		return n, "a task: " + stageOf(string(line))
	}
	return 0, ""
}

// age makes the claims of killed processes as old as they must be to count
// for nothing, which otherwise takes two minutes.
func age(t *testing.T, dir string) {
	t.Helper()
	entries, _ := os.ReadDir(dir)
	then := time.Now().Add(-time.Hour)
	for _, entry := range entries {
		if err := os.Chtimes(filepath.Join(dir, entry.Name()), then, then); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	}
}

package command_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// On a real Slurm, lathe advance is killed at random instants, whether a
// person or a gate job runs it, and so are tasks. Advancing again, and pruning
// on the way, goes on to the bytes of a run without kills.
func TestSlurmChaos(t *testing.T) {
	c := startCluster(t, "--nodes", "3", "--max-array-size", "101")
	kills := 30
	if n, err := strconv.Atoi(os.Getenv(chaosVariable)); err == nil {
		kills = n
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d kills, seed %d", kills, seed)
	random := rand.New(rand.NewPCG(seed, 1))
	settings := set("schedule.iterations=3", "schedule.staleness=1", "rollout.shards=3", "schedule.max_attempts=1000000")
	reference := filepath.Join(t.TempDir(), "reference")
	lathe := filepath.Join(c.bin, "lathe")
	c.must(lathe, append([]string{"run", "jobs/smoke.yaml", "--run", reference}, settings...)...)
	want := essence(t, reference)

	began := time.Now()
	killed := map[string]int{}
	done, runs := 0, 0
	for ; done < kills; runs++ {
		dir := filepath.Join(t.TempDir(), "run")
		args := append([]string{"advance", "--recipe", "jobs/smoke.yaml", "--run", dir, "--executor", "slurm", "--site", "devcluster", "--set", "schedule.keep_every=2"}, settings...)
		for finished := false; !finished; {
			advance := exec.Command(lathe, args...)
			advance.Dir, advance.Env = repository, c.env
			var out bytes.Buffer
			advance.Stderr = &out
			if err := advance.Start(); err != nil {
				t.Fatal(err)
			}
			if done < kills {
				timer := time.AfterFunc(time.Duration(random.Int64N(int64(500*time.Millisecond))), func() { _ = advance.Process.Kill() })
				_ = advance.Wait()
				if !timer.Stop() {
					killed["lathe advance"]++
					done++
				}
			} else if err := advance.Wait(); err != nil {
				t.Fatalf("lathe advance: %v\n%s", err, out.String())
			}
			for wait := time.Now().Add(3 * time.Second); time.Now().Before(wait) && done < kills; time.Sleep(50 * time.Millisecond) {
				if pid, who := runningOf(dir, random); pid != 0 && random.IntN(4) == 0 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					killed[who]++
					done++
				}
			}
			if done >= kills {
				time.Sleep(3 * time.Second)
			}
			age(t, filepath.Join(dir, "jobs", "claims"))
			_, err := os.Stat(filepath.Join(dir, "report", "summary.json"))
			finished = err == nil
			if time.Since(began) > 12*time.Minute {
				t.Fatalf("not done after %v, %v\n%s", time.Since(began), killed, c.must(lathe, "status", dir))
			}
		}
		c.must(lathe, "report", dir)
		if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
			t.Errorf("digests (-reference +after kills):\n%s", diff)
		}
		c.must(lathe, "run", "--run", dir) // finds it done, and sweeps
		clean(t, dir)
	}
	t.Logf("%d kills in %d runs, %v: %v", done, runs, time.Since(began).Round(time.Second), killed)
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
			return n, "a gate's lathe advance"
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

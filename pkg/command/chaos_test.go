package command_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// How many processes TestChaos kills, and the seed of the instants.
const (
	chaosVariable     = "LATHE_CHAOS"
	chaosSeedVariable = "LATHE_CHAOS_SEED"
	chaosKills        = 12
	kindsOfRuns       = 6 // with and without gradient shards, every third oversampled
)

// Processes of a run are killed with SIGKILL at random instants: the driver
// alone, the driver and all its tasks, one task, or whoever writes the
// report. The same command then goes on, to the same bytes, with an exact
// ledger, and nothing is left behind.
func TestChaos(t *testing.T) {
	kills, seed := chaosKills, uint64(time.Now().UnixNano())
	if text := os.Getenv(chaosVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", chaosVariable, err)
		}
		kills = n
	}
	if text := os.Getenv(chaosSeedVariable); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", chaosSeedVariable, err)
		}
		seed = n
	}
	t.Logf("%d kills; to repeat the choices: %s=%d", kills, chaosSeedVariable, seed)

	settings := slices.Concat(thorough, []string{"schedule.iterations=6", "rollout.shards=4", "schedule.max_attempts=1000000"})
	reference := filepath.Join(t.TempDir(), "reference")
	began := time.Now()
	lathe(t, exitcode.OK, runArgs(reference, smoke, settings...)...)
	whole := time.Since(began)
	t.Logf("a run without kills takes %v", whole.Round(10*time.Millisecond))
	clean(t, reference)
	want := essence(t, reference)

	c := &chaos{t: t, random: rand.New(rand.NewPCG(seed, 0)), whole: whole, killed: map[string]int{}}
	runs, done := 0, 0
	for ; done < kills; runs++ {
		c.left = min((kills+kindsOfRuns-1)/kindsOfRuns, kills-done)
		done += c.left
		dir := filepath.Join(t.TempDir(), "run")
		// They prune as they go, and the reference does not. Every other run
		// computes its gradients in shards, and every third oversamples: then
		// the bytes depend on what was done first, and the ledger must still be
		// exact.
		own := slices.Concat(settings, []string{"schedule.keep_every=4"})
		if runs%2 == 1 {
			own = slices.Concat(own, []string{"schedule.gradient_shards=2"})
		}
		oversampled := runs%3 == 2
		if oversampled {
			own = slices.Concat(own, []string{"schedule.oversample=1.5"})
		}
		c.run(runArgs(dir, smoke, own...))
		c.report(dir)
		done -= c.left // what the run was too short for
		clean(t, dir)
		if diff := cmp.Diff(want, essence(t, dir)); diff != "" && !oversampled {
			t.Errorf("digests (-reference +after kills):\n%s", diff)
		}
	}
	for _, who := range slices.Sorted(maps.Keys(c.killed)) {
		t.Logf("%4d killed: %s", c.killed[who], who)
	}
	t.Logf("%d kills in %d runs, %d resumes, %v", done, runs, c.resumes, time.Since(began).Round(time.Second))
}

// chaos kills processes.
type chaos struct {
	t       *testing.T
	random  *rand.Rand
	left    int           // kills
	whole   time.Duration // of a run without kills
	resumes int
	killed  map[string]int // by victim
}

// pause waits for a random instant. Most are soon, the others anywhere in what
// is left of a run: else a driver that begins again never gets far.
func (c *chaos) pause() {
	most := 60 * time.Millisecond
	if c.random.IntN(4) == 0 {
		most = c.whole
	}
	time.Sleep(time.Duration(c.random.Int64N(int64(most))))
}

// run carries a run to its end, killing on the way.
func (c *chaos) run(args []string) {
	c.t.Helper()
	for {
		driver := exec.Command("lathe", args...)
		var stderr bytes.Buffer
		driver.Stderr = &stderr
		if err := driver.Start(); err != nil {
			c.t.Fatal(err)
		}
		exited := make(chan error, 1)
		go func() { exited <- driver.Wait() }()
		if !c.disturb(driver.Process.Pid, exited) {
			if code := driver.ProcessState.ExitCode(); code != exitcode.OK {
				c.t.Fatalf("lathe run ends with exit code %d after %v\n%s", code, c.killed, stderr.String())
			}
			return
		}
		c.resumes++
	}
}

// disturb kills tasks of a driver until it ends, or kills the driver and
// reports true.
func (c *chaos) disturb(driver int, exited <-chan error) bool {
	for c.left > 0 {
		c.pause()
		select {
		case <-exited:
			return false
		default:
		}
		tasks := children(driver)
		switch c.random.IntN(5) {
		case 0, 1:
			c.kill("the driver, during "+stages(tasks), driver)
			<-exited
			return true
		case 2:
			c.kill("the driver and its tasks, during "+stages(tasks), append([]int{driver}, slices.Collect(maps.Keys(tasks))...)...)
			<-exited
			return true
		default:
			if len(tasks) > 0 {
				pids := slices.Sorted(maps.Keys(tasks))
				victim := pids[c.random.IntN(len(pids))]
				c.kill("one task: "+tasks[victim], victim)
			}
		}
	}
	<-exited
	return false
}

func (c *chaos) kill(who string, pids ...int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // that it has just ended is no matter
	}
	c.killed[who]++
	c.left--
}

// report kills lathe report a few times and lets it end.
func (c *chaos) report(dir string) {
	c.t.Helper()
	for range min(c.left, 2) {
		cmd := exec.Command("lathe", "report", dir)
		if err := cmd.Start(); err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(time.Duration(c.random.Int64N(int64(120 * time.Millisecond))))
		if syscall.Kill(cmd.Process.Pid, syscall.SIGKILL) == nil {
			c.killed["lathe report"]++
			c.left--
		}
		_ = cmd.Wait()
	}
	lathe(c.t, exitcode.OK, "run", "--run", dir) // finds it done, sweeps, and writes the report again
}

// children lists the child processes of a process, with the stage that each
// carries out.
func children(parent int) map[int]string {
	found := map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		// PID (COMMAND) STATE PPID ...; the command may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(parent) {
			continue
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil {
			found[pid] = stageOf(string(line))
		}
	}
	return found
}

// stageOf names the stage of a task by its command line.
func stageOf(cmdline string) string {
	for _, flag := range []string{"warm", "evaluate", "gradient"} {
		if strings.Contains(cmdline, "--"+flag+"\x00") {
			return flag
		}
	}
	name, _, _ := strings.Cut(cmdline, "\x00")
	if filepath.Base(name) == "lathe" {
		return "a task that is being started"
	}
	return strings.TrimPrefix(filepath.Base(name), "lathe-")
}

// stages names the stages of tasks, each once.
func stages(tasks map[int]string) string {
	names := slices.Compact(slices.Sorted(maps.Values(tasks)))
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, " and ")
}

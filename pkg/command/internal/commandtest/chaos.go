package commandtest

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

	"github.com/lathe-rl/lathe/pkg/child"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// The variables that say how many processes tests kill, and that repeat the
// choices of a test.
const (
	chaosVariable     = "LATHE_CHAOS"
	chaosSeedVariable = "LATHE_CHAOS_SEED"
)

// Chaos kills processes of runs with SIGKILL at random instants.
type Chaos struct {
	Kills   int            // that are to be
	Done    int            // kills, those of reports apart
	Resumes int            // of runs whose driver was killed
	Whole   time.Duration  // of a run without kills
	Killed  map[string]int // by victim

	// Programs has also what tasks have started killed: a third of the kills.
	Programs bool
	// During is the stage of which a task is at work when something is killed, if any is to
	// be in particular.
	During string

	t      *testing.T
	random *rand.Rand
	until  int // kills, in the run that is under way
}

// NewChaos returns a chaos of so many kills, unless the environment says how
// many.
func NewChaos(t *testing.T, kills int) *Chaos {
	t.Helper()
	number := func(name string, otherwise uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	seed := number(chaosSeedVariable, uint64(time.Now().UnixNano()))
	c := &Chaos{Kills: int(number(chaosVariable, uint64(kills))), Killed: map[string]int{}, t: t, random: rand.New(rand.NewPCG(seed, 0))}
	t.Logf("%d kills; to repeat the choices: %s=%d", c.Kills, chaosSeedVariable, seed)
	return c
}

// Log lists the victims.
func (c *Chaos) Log() {
	c.t.Helper()
	for _, who := range slices.Sorted(maps.Keys(c.Killed)) {
		c.t.Logf("%4d killed: %s", c.Killed[who], who)
	}
}

// pause waits for a random instant. Most are soon, the others anywhere in what
// is left of a run: else a driver that begins again never gets far.
func (c *Chaos) pause() {
	most := 60 * time.Millisecond
	if c.random.IntN(4) == 0 {
		most = c.Whole
	}
	time.Sleep(time.Duration(c.random.Int64N(int64(most))))
}

// Run carries a run to its end with lathe run, killing up to so many on the way.
func (c *Chaos) Run(most int, args ...string) {
	c.t.Helper()
	c.until = min(c.Kills, c.Done+most)
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
				c.t.Fatalf("lathe run ends with exit code %d after %v\n%s", code, c.Killed, stderr.String())
			}
			return
		}
		c.Resumes++
	}
}

// disturb kills tasks of a driver until it ends, or kills the driver and
// reports true.
func (c *Chaos) disturb(driver int, exited chan error) bool {
	for c.Done < c.until {
		if c.During == "" {
			c.pause()
		} else if c.await(driver, exited, func(pid int, stage string) bool { return stage == c.During }) {
			c.moment()
		}
		select {
		case <-exited:
			return false
		default:
		}
		if c.Programs && c.random.IntN(3) == 0 {
			c.killProgram(driver, exited)
			continue
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

// killProgram waits until a task has a program and kills it a little later, or gives
// up when the driver ends.
func (c *Chaos) killProgram(driver int, exited chan error) {
	var program int
	var of string
	for c.await(driver, exited, func(task int, stage string) bool {
		if stage == notATask {
			return false
		}
		for _, program = range slices.Sorted(maps.Keys(children(task))) {
			of = stage
			return true
		}
		return false
	}) {
		c.moment()
		if syscall.Kill(program, syscall.SIGKILL) == nil {
			c.killed("a program of " + of)
			return
		}
	}
}

// moment lets a little of what was awaited happen.
func (c *Chaos) moment() { time.Sleep(time.Duration(c.random.Int64N(int64(100 * time.Millisecond)))) }

// await waits for a child of a driver, or reports false when the driver ends.
func (c *Chaos) await(driver int, exited chan error, is func(pid int, stage string) bool) bool {
	for ; ; time.Sleep(time.Millisecond) {
		select {
		case err := <-exited:
			exited <- err
			return false
		default:
		}
		tasks := children(driver)
		for _, pid := range slices.Sorted(maps.Keys(tasks)) {
			if is(pid, tasks[pid]) {
				return true
			}
		}
	}
}

// notATask is a child of a driver that runs no task.
const notATask = "the driver's own program"

func (c *Chaos) kill(who string, pids ...int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // that it has just ended is no matter
	}
	c.killed(who)
}

func (c *Chaos) killed(who string) {
	c.Killed[who]++
	c.Done++
}

// Report kills lathe report twice, beside the kills that were asked for, and lets it
// end.
func (c *Chaos) Report(dir string) {
	c.t.Helper()
	for range 2 {
		cmd := exec.Command("lathe", "report", dir)
		if err := cmd.Start(); err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(time.Duration(c.random.Int64N(int64(120 * time.Millisecond))))
		if syscall.Kill(cmd.Process.Pid, syscall.SIGKILL) == nil {
			c.Killed["lathe report"]++
		}
		_ = cmd.Wait()
	}
	// It finds the run done, sweeps, and writes the report again.
	if out, err := exec.Command("lathe", "run", "--run", dir).CombinedOutput(); err != nil {
		c.t.Fatalf("lathe run --run %s: %v\n%s", dir, err, out)
	}
}

// children lists the child processes of a process, with the stage that each
// runs.
func children(parent int) map[int]string {
	found := map[int]string{}
	for _, p := range child.Processes() {
		if p.Parent != parent {
			continue
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err == nil && len(line) > 0 { // one that has ended has none
			found[p.PID] = stageOf(string(line))
		}
	}
	return found
}

// stageOf names the stage of a task, and a later wave, by its command line.
func stageOf(cmdline string) string {
	if before, wave, found := strings.Cut(cmdline, "\x00--wave\x00"); found {
		wave, _, _ = strings.Cut(wave, "\x00")
		return stageOf(before+"\x00") + " in wave " + wave
	}
	for _, flag := range []string{"warm", "evaluate", "gradient", "reduce", "sum", "apply"} {
		if strings.Contains(cmdline, "--"+flag+"\x00") {
			return flag
		}
	}
	name, _, _ := strings.Cut(cmdline, "\x00")
	if filepath.Base(name) == "lathe" {
		return "a task that is being started"
	}
	if stage, ok := strings.CutPrefix(filepath.Base(name), "lathe-"); ok {
		return stage
	}
	return notATask
}

// stages names the stages of tasks, each once.
func stages(tasks map[int]string) string {
	names := slices.Compact(slices.Sorted(maps.Values(tasks)))
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, " and ")
}

package seal

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// Attempt says who is writing: it names temporary files and signs manifests.
// The zero value is a valid, anonymous attempt of this process.
type Attempt struct {
	// Guard refuses a name that has other contents, sealed or not, with a usage
	// error. It is for outputs that people name: a task of a run keeps what a
	// twin has sealed, and replaces the rest.
	Guard bool

	JobID  string // Slurm's job id, or local-HOST outside Slurm
	TaskID string // index in the job array; 0 outside one
	Number int    // how often this work was started before
	// Restarts are those of them that were requeues of one submission.
	Restarts int
	Host     string
	PID      int              // 0 means this process
	Clock    func() time.Time // nil means time.Now
}

// AttemptFromEnv describes this process by what Slurm and lathe put into its
// environment. Number is LATHE_ATTEMPT, which counts submissions, plus
// SLURM_RESTART_COUNT, which counts requeues of one submission.
func AttemptFromEnv() Attempt {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	a := Attempt{Host: host, PID: os.Getpid(), Clock: time.Now, Restarts: countIn("SLURM_RESTART_COUNT")}
	a.JobID = cmp.Or(os.Getenv("SLURM_ARRAY_JOB_ID"), os.Getenv("SLURM_JOB_ID"), localJob(host))
	a.TaskID = cmp.Or(os.Getenv("SLURM_ARRAY_TASK_ID"), "0")
	a.Number = countIn("LATHE_ATTEMPT") + a.Restarts
	return a
}

// countIn is the number in an environment variable; 0 where there is none.
func countIn(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return 0
	}
	return max(0, n)
}

// localJob is the job id of work that runs outside Slurm. It holds the host, and
// what tells apart boots of it and containers on it, so that Sweep knows whether
// a process id means anything here.
func localJob(host string) string { return "local-" + plain(host) + "-" + processSpace() }

// processSpace names the processes among which an id means one: those of a boot
// of a machine, and of a container if there is one.
var processSpace = sync.OnceValue(func() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // a system without it has no containers either
	space, _ := os.Readlink("/proc/self/ns/pid")
	sum := sha256.Sum256(append(boot, space...))
	return hex.EncodeToString(sum[:4])
})

func (a Attempt) now() time.Time {
	if a.Clock == nil {
		return time.Now()
	}
	return a.Clock()
}

func (a Attempt) pid() int { return cmp.Or(a.PID, os.Getpid()) }

var notPlain = lazyregexp.New(`[^a-zA-Z0-9-]`)

// plain keeps letters, digits and hyphens, so that the fields of a temporary
// name can be told apart.
func plain(s string) string { return notPlain().ReplaceAllString(cmp.Or(s, "0"), "-") }

// serial tells apart the temporary files of one process.
var serial atomic.Int64

// tempPath returns a new temporary name in the folder of path.
func (a Attempt) tempPath(path string) string {
	return filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%s_%s.%d.%d-%d.tmp",
		filepath.Base(path), plain(a.JobID), plain(a.TaskID), a.Number, a.pid(), serial.Add(1)))
}

// temp is a temporary name taken apart.
type temp struct {
	name string // of the file it was to become
	job  string
	pid  int
}

// parseTemp takes a temporary name apart; ok is false for every other name.
func parseTemp(base string) (t temp, ok bool) {
	rest, ok := strings.CutSuffix(base, ".tmp")
	if !ok || !strings.HasPrefix(rest, ".") {
		return temp{}, false
	}
	fields := strings.Split(rest[1:], ".")
	n := len(fields)
	if n < 4 {
		return temp{}, false
	}
	job, _, ok := strings.Cut(fields[n-3], "_")
	if !ok {
		return temp{}, false
	}
	if _, err := strconv.Atoi(fields[n-2]); err != nil {
		return temp{}, false
	}
	process, _, ok := strings.Cut(fields[n-1], "-")
	if !ok {
		return temp{}, false
	}
	pid, err := strconv.Atoi(process)
	if err != nil || pid <= 0 {
		return temp{}, false
	}
	return temp{name: strings.Join(fields[:n-3], "."), job: job, pid: pid}, true
}

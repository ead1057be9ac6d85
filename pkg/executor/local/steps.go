package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/site"
)

// NewSteps returns a pool that runs each task as a step of the Slurm
// allocation that this process runs in. Its cores are those of the
// allocation, on all its nodes.
func NewSteps(_ context.Context, site site.Resolved) (*Pool, error) {
	if os.Getenv("SLURM_JOB_ID") == "" {
		return nil, exitcode.WithHint(exitcode.Unavailablef("the steps executor runs inside a Slurm allocation, and SLURM_JOB_ID is not set"),
			"start it with sbatch or salloc, or use --executor slurm")
	}
	srun, err := exec.LookPath("srun")
	if err != nil {
		return nil, exitcode.Unavailablef("finding srun: %w", err)
	}
	cores, err := allocatedCores()
	if err != nil {
		return nil, err
	}
	return newPool(cores, site.Site.Processes, stepStarter{srun: srun, site: site.Site}), nil
}

// allocatedCores is the number of cores of the allocation on all its nodes.
func allocatedCores() (int, error) {
	if text := os.Getenv("SLURM_JOB_CPUS_PER_NODE"); text != "" {
		cores, err := sumCounts(text)
		if err != nil {
			return 0, exitcode.Unavailablef("reading SLURM_JOB_CPUS_PER_NODE: %w", err)
		}
		return cores, nil
	}
	cores, err := strconv.Atoi(os.Getenv("SLURM_CPUS_ON_NODE"))
	if err != nil || cores < 1 {
		return 0, exitcode.Unavailablef("the number of cores of the allocation is unknown: SLURM_JOB_CPUS_PER_NODE and SLURM_CPUS_ON_NODE are not set")
	}
	nodes, err := strconv.Atoi(os.Getenv("SLURM_JOB_NUM_NODES"))
	if err != nil || nodes < 1 {
		nodes = 1
	}
	return cores * nodes, nil
}

// sumCounts adds up Slurm's short form of a list of counts: 4(x2),1 is 9.
func sumCounts(text string) (int, error) {
	const most = 1 << 30 // far above any cluster, far below an overflow
	total := 0
	for part := range strings.SplitSeq(text, ",") {
		number, rest, repeated := strings.Cut(part, "(x")
		count, err := strconv.ParseUint(number, 10, 30)
		if err != nil {
			return 0, fmt.Errorf("%q is not a list such as 4(x2),1", text)
		}
		times := uint64(1)
		if repeated {
			digits, closed := strings.CutSuffix(rest, ")")
			if times, err = strconv.ParseUint(digits, 10, 30); err != nil || !closed {
				return 0, fmt.Errorf("%q is not a list such as 4(x2),1", text)
			}
		}
		if count*times > uint64(most-total) {
			return 0, fmt.Errorf("%q has too many cores", text)
		}
		total += int(count * times)
	}
	if total == 0 {
		return 0, fmt.Errorf("%q has no cores", text)
	}
	return total, nil
}

// stepStarter runs tasks through srun.
type stepStarter struct {
	srun string
	site site.Profile
}

func (s stepStarter) command(array executor.Array, shard int) *exec.Cmd {
	site := s.site
	if own, err := site.Stage(array.SiteStage()); err == nil { // else the site has nothing to say about it
		site = own
	}
	// Exclusive and exact: a task has its cores to itself and no others. The
	// number of cores is always given, since srun takes it from sbatch in some
	// versions of Slurm and not in others.
	words := []string{
		"--exclusive", "--exact", "--nodes=1", "--ntasks=1", "--cpus-per-task=" + strconv.Itoa(array.CPUs),
		"--job-name=" + array.Name(), "--kill-on-bad-exit=0", "--quiet", "--input=none",
	}
	if memory := executor.MemoryFlag(site, array.MemoryGB); memory != "" {
		words = append(words, memory)
	}
	switch gpus := executor.GPUFlag(site, array.GPUs); {
	case gpus != "":
		words = append(words, gpus)
	case os.Getenv("SLURM_JOB_GPUS") != "" || os.Getenv("SLURM_GPUS_ON_NODE") != "":
		// A step that does not say takes every GPU of the allocation.
		words = append(words, "--gres=none")
	}
	cmd := exec.Command(s.srun, append(words, arguments(array, shard)...)...)
	cmd.Env = executor.Environ(changesStep, ownVariables(array))
	return cmd
}

// srun takes SIGTERM as an order to kill the step, and passes SIGUSR2 on.
func (stepStarter) stopSignals() []syscall.Signal {
	return []syscall.Signal{syscall.SIGUSR2, syscall.SIGTERM}
}

// When srun is killed the step lives on; when it is terminated the step ends.
func (stepStarter) deathSignal() syscall.Signal { return syscall.SIGTERM }

// ended: srun exits with the exit code of its task, or with 128 and the
// signal that ended it.
func (stepStarter) ended(status syscall.WaitStatus) (int, syscall.Signal) {
	if status.Signaled() {
		return -1, status.Signal()
	}
	if code := status.ExitStatus(); code > 128 {
		return -1, syscall.Signal(code - 128)
	}
	return status.ExitStatus(), 0
}

// refusal is how srun says that a task never began.
var refusal = lazyregexp.New(`srun: error: Unable to create step for job \d+: (.+)\n\z`)

// lacking are the refusals of a step that asks for more than its allocation has, in the
// words of slurm_strerror: it would be refused as often as it is tried.
var lacking = []string{
	"Memory required by task is not available", "Invalid generic resource (gres) specification", "Insufficient GRES available in allocation",
	"More processors requested than permitted", "Requested node configuration is not available", "Node count specification invalid",
}

func (stepStarter) refused(written string) (cause executor.Cause, evidence string) {
	said := refusal().FindStringSubmatch(written)
	switch {
	case said == nil:
		return "", ""
	case slices.Contains(lacking, said[1]):
		return executor.CauseUnavailable, "its step asks for more than the allocation has (srun: " + said[1] + "); ask sbatch for more memory, cores or GPUs, or lower resources in the recipe"
	}
	return executor.CauseLaunchFailed, "srun: " + said[1]
}

// kept are the variables of Slurm that srun needs to find the allocation. It
// takes all others as options, so what sbatch asked for the whole allocation
// would become the request of each step.
var kept = []string{"SLURM_CONF", "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_WORKING_CLUSTER"}

func changesStep(name string) bool {
	for _, prefix := range []string{"SLURM_", "SRUN_", "SBATCH_", "SALLOC_", "PMI_", "PMIX_"} {
		if strings.HasPrefix(name, prefix) {
			return !slices.Contains(kept, name)
		}
	}
	return name == "CUDA_VISIBLE_DEVICES" || name == "GPU_DEVICE_ORDINAL"
}

package mle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/devices"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/sandbox"
)

// runner runs programs in sandboxes.
type runner struct {
	settings    *Settings
	image       func() (string, error) // the root of programs; empty for this machine's
	interpreter func() (interpreter, error)
	weights     func() ([]string, error) // folders of pretrained weights
	warm        func() (*sandbox.Warm, error)
	gpus        *devices.Pool // of the score task, of which each program has its own
}

func newRunner(s *Settings) *runner {
	r := &runner{settings: s, gpus: devices.NewPool(givenGPUs())}
	r.image = sync.OnceValues(func() (string, error) { return openImage(s.Program.Image) })
	r.interpreter = sync.OnceValues(func() (interpreter, error) {
		root, err := r.image()
		if err != nil {
			return interpreter{}, err
		}
		return find(s.Program.Interpreter, root)
	})
	r.weights = sync.OnceValues(func() ([]string, error) { return weightFolders(s.Program.Read) })
	r.warm = sync.OnceValues(func() (*sandbox.Warm, error) {
		python, err := r.interpreter()
		if err != nil {
			return nil, err
		}
		weights, err := r.weights()
		if err != nil {
			return nil, err
		}
		w := &sandbox.Warm{Env: r.environment(python, weights, "/", "")}
		// It lives as long as this process does.
		if err := w.Start(context.Background(), python.path, s.Sandbox.Warm); err != nil {
			return nil, fmt.Errorf("env.sandbox.warm: %w", err)
		}
		return w, nil
	})
	return r
}

// givenGPUs names the devices that the scheduler has given to this process.
func givenGPUs() []string {
	return strings.FieldsFunc(os.Getenv("CUDA_VISIBLE_DEVICES"), func(r rune) bool { return r == ',' || r == ' ' })
}

// takeGPUs waits for so many devices.
func (r *runner) takeGPUs(ctx context.Context, n int) (names []string, release func(), err error) {
	if all := r.gpus.Len(); n > all {
		return nil, nil, exitcode.WithHint(exitcode.Unavailablef("a program is to have %d GPUs, and CUDA_VISIBLE_DEVICES gives %d to this process", n, all),
			"give the score tasks GPUs in the site's profile, or set env.limits.gpus or limits.gpus of task.yaml to 0")
	}
	return r.gpus.Take(ctx, n)
}

// environment is all of a program's environment.
func (r *runner) environment(python interpreter, weights []string, scratch, public string) []string {
	threads := strconv.Itoa(r.settings.Program.Threads)
	return slices.Concat([]string{
		"PATH=" + python.searched(), "HOME=" + scratch, "TMPDIR=" + filepath.Join(scratch, "tmp"), "LANG=C.UTF-8", "LC_ALL=C.UTF-8",
		"PUBLIC_RESOURCE_PATH=" + public, "PYTHONHASHSEED=0", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONNOUSERSITE=1", "MPLBACKEND=Agg",
		"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads, "MKL_NUM_THREADS=" + threads, "NUMEXPR_NUM_THREADS=" + threads, "LOKY_MAX_CPU_COUNT=" + threads,
	}, python.arithmetic, weightVariables(weights))
}

// execute runs a sandboxed program: in a new interpreter, or in a fork of a warm one.
func (r *runner) execute(ctx context.Context, p sandbox.Program) (sandbox.Result, error) {
	if len(r.settings.Sandbox.Warm) == 0 {
		return sandbox.Run(ctx, p)
	}
	w, err := r.warm()
	if err != nil {
		return sandbox.Result{}, err
	}
	p.Seed = new(uint32) // as good as any, and the same each time
	return w.Run(ctx, p)
}

// execution is what came of a program.
type execution struct {
	sandbox.Report
	heard      *listener
	output     string // both streams, the second last, without paths of this machine
	submission []byte // nil for none
	badFile    string // why what it left cannot be read as a submission
	protection string
}

// where programs may leave their submission, the first that is there: the
// papers name all three.
var submissionPaths = []string{"submission/submission.csv", "submission.csv", "working/submission.csv"}

const (
	outputBytes = 64 << 10 // bounds each of a program's streams
	maxFiles    = 100_000  // bounds the files and folders of a program
)

// run runs a program on a task's data for at most so long, in a scratch folder of its
// own that is gone afterwards. Its submission is read when it and all that it
// started are dead. An error is ours.
func (r *runner) run(ctx context.Context, t *task.Task, source string, wall time.Duration) (x execution, err error) {
	python, err := r.interpreter()
	if err != nil {
		return x, err
	}
	weights, err := r.weights()
	if err != nil {
		return x, err
	}
	work, err := sandbox.NewWorkFolder("mle")
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	scratch := work.Path
	for _, folder := range []string{"submission", "working", "tmp"} {
		if err := os.Mkdir(filepath.Join(scratch, folder), 0o700); err != nil {
			return x, err
		}
	}
	if err := os.Symlink(t.PublicDir, filepath.Join(scratch, "input")); err != nil {
		return x, err
	}
	if err := os.WriteFile(filepath.Join(scratch, "solution.py"), []byte(source), 0o600); err != nil {
		return x, err
	}
	limits := r.settings.limits(t)
	gpus, release, err := r.takeGPUs(ctx, limits.GPUs)
	if err != nil {
		return x, fmt.Errorf("task %q: %w", t.Name, err)
	}
	defer release()
	x.heard = newListener(r.settings)
	result, err := r.execute(ctx, sandbox.Program{
		Args: []string{python.path, "solution.py"}, Root: python.root, Dir: scratch, Stdout: x.heard, Env: r.environment(python, weights, scratch, filepath.Join(scratch, "input")),
		Read: slices.Concat([]string{t.PublicDir}, python.folders, weights), Write: []string{scratch}, Require: r.settings.Sandbox.Require, GPUs: gpus,
		Limits: sandbox.Limits{
			Wall: wall, Memory: int64(limits.MemoryMB) << 20, Processes: limits.Processes, FileBytes: int64(limits.FileMB) << 20,
			Disk: int64(limits.DiskMB) << 20, Files: maxFiles, Output: outputBytes,
		},
	})
	if err != nil {
		return x, fmt.Errorf("running a program on task %q: %w", t.Name, err)
	}
	if result.End == sandbox.NotStarted {
		return x, fmt.Errorf("running a program on task %q: the sandbox could not be built: %s", t.Name, result.Stderr)
	}
	x.Report, x.protection = result.Report, result.Protection.String()
	same := strings.NewReplacer(filepath.Join(scratch, "input"), "./input", scratch, ".", t.PublicDir, "./input")
	x.heard.end()
	x.output = strings.TrimRight(plain(same.Replace(result.Stdout.String())), "\n") + "\n" + plain(same.Replace(result.Stderr.String()))
	x.submission, x.badFile = submissionIn(scratch, min(int64(limits.FileMB)<<20, t.Grader.MaxBytes()))
	return x, nil
}

// addresses differ from run to run, and tell a policy nothing.
var addresses = lazyregexp.New(`0x[0-9a-f]{8,}`)

// plain is a program's output as text that is the same for the same program.
func plain(s string) string {
	return addresses().ReplaceAllString(strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd"), "0x…")
}

// submissionIn reads the submission that a dead program has left: a regular file
// below the folder, whatever links lead there, of at most so many bytes.
func submissionIn(scratch string, most int64) (content []byte, bad string) {
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return nil, "its folder is gone"
	}
	defer root.Close()
	for _, name := range submissionPaths {
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Sprintf("%s cannot be read", name)
		}
		info, err := f.Stat()
		switch {
		case err != nil:
			bad = fmt.Sprintf("%s cannot be read", name)
		case !info.Mode().IsRegular():
			bad = fmt.Sprintf("%s is not a file", name)
		case info.Size() > most:
			bad = fmt.Sprintf("%s has %d bytes, and at most %d are read", name, info.Size(), most)
		default:
			content = make([]byte, info.Size()) // of a dead program: nobody changes it
			if _, err := io.ReadFull(f, content); err != nil {
				content, bad = nil, fmt.Sprintf("%s cannot be read", name)
			}
		}
		_ = f.Close() // nothing was written
		return content, bad
	}
	return nil, ""
}

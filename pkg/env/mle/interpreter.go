package mle

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// interpreter is a Python and what it needs.
type interpreter struct {
	root       string // the image that it is in; empty for this machine
	path       string
	folders    []string
	arithmetic []string // variables of the environment, of arithmetic
}

// programFolders are those in which programs are looked for.
var programFolders = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// searched is the PATH of programs. The interpreter's own folder is the first: what a
// program starts as python3 is the one that runs it.
func (i interpreter) searched() string {
	folders := programFolders
	if own := filepath.Dir(i.path); !slices.Contains(folders, own) {
		folders = slices.Concat([]string{own}, folders)
	}
	return strings.Join(folders, ":")
}

// find asks an interpreter of this machine, or of an image, where it and its libraries
// are, and how they are to count.
func find(name, root string) (interpreter, error) {
	if root != "" {
		return findIn(root, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return interpreter{}, exitcode.WithHint(exitcode.Unavailablef("env.program.interpreter: %w", err), "install python3, or name another interpreter")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run := onHost(ctx, path)
	const ask = "import json,os,sys; print(json.dumps([os.path.realpath(sys.executable), sys.executable, sys.prefix, sys.base_prefix] + sys.path))"
	out, err := run(nil, "-I", "-c", ask)
	var said []string
	if err == nil {
		err = json.Unmarshal(out, &said)
	}
	if err != nil || len(said) < 4 {
		return interpreter{}, exitcode.Unavailablef("env.program.interpreter: %q does not behave as Python 3: %w", path, errors.Join(err))
	}
	found := interpreter{path: said[1], arithmetic: arithmetic(run)}
	for _, folder := range said {
		if _, err := os.Stat(folder); err == nil && folder != "" {
			found.folders = append(found.folders, folder)
		}
	}
	return found, nil
}

// asked is an interpreter that is run with variables of the environment beside its own,
// and returns what it prints.
type asked func(environ []string, args ...string) ([]byte, error)

// onHost runs an interpreter of this machine.
func onHost(ctx context.Context, path string) asked {
	return func(environ []string, args ...string) ([]byte, error) {
		c := exec.CommandContext(ctx, path, args...)
		c.Env = append(os.Environ(), environ...)
		return c.Output()
	}
}

// arithmetic has numerical libraries count with AVX2 and FMA, where the machine has
// them. They would choose the widest instructions that there are, and add in another
// order with each: the last digits that a program prints, and at times its score, would
// depend on the machine that it ran on.
func arithmetic(python asked) []string {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return nil
	}
	avx2 := []string{"OPENBLAS_CORETYPE=Haswell", "MKL_CBWR=AVX2", "ONEDNN_MAX_CPU_ISA=AVX2", "ATEN_CPU_CAPABILITY=avx2"}
	if cpu.X86.HasAVX512F {
		avx2 = append(avx2, withoutNumpyFeatures(python, "AVX512", "X86_V4")...)
	}
	return avx2
}

// withoutNumpyFeatures is the variable that keeps NumPy from using what its names for
// begin so; none where it uses nothing of it, or is not there. It is asked, since it
// warns on standard error of features that it or the machine does not have.
func withoutNumpyFeatures(python asked, prefixes ...string) []string {
	const ask = `import sys
try: import numpy
except ImportError: sys.exit()
m = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
print(*(f for f in m.__cpu_dispatch__ if m.__cpu_features__.get(f) and f.startswith(tuple(sys.argv[1:]))))`
	out, err := python([]string{"NPY_DISABLE_CPU_FEATURES=", "NPY_ENABLE_CPU_FEATURES="}, append([]string{"-I", "-c", ask}, prefixes...)...)
	features := strings.TrimSpace(string(out))
	if err != nil || features == "" {
		return nil // a NumPy that cannot be loaded counts nothing
	}
	return []string{"NPY_DISABLE_CPU_FEATURES=" + features}
}

package mle

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// TestArithmetic: programs see how their libraries are to count, and a NumPy does
// without what it is told, and warns of nothing.
func TestArithmetic(t *testing.T) {
	t.Parallel()
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		if a := arithmetic(onHost(t.Context(), "/usr/bin/python3")); a != nil {
			t.Errorf("a machine without AVX2 is to count with %q", a)
		}
		return
	}
	e, of := open(t, nil)
	v := must.Get(e.Score(t.Context(), attempt(of, "```python\nimport os; print(os.environ['OPENBLAS_CORETYPE'], os.environ['MKL_CBWR'], os.environ.get('NPY_DISABLE_CPU_FEATURES'))\n```")))(t)
	if want := "Haswell AVX2 "; !strings.Contains(v.Feedback, want) || strings.Contains(v.Feedback, want+"None") && cpu.X86.HasAVX512F && numpy(t) {
		t.Errorf("a program sees\n%s", v.Feedback)
	}
	if none := withoutNumpyFeatures(onHost(t.Context(), "/usr/bin/python3"), "no such feature"); none != nil {
		t.Errorf("of features that NumPy does not know: %q", none)
	}
	if !numpy(t) {
		return
	}
	without := withoutNumpyFeatures(onHost(t.Context(), "/usr/bin/python3"), "AVX2", "AVX512", "X86_V3", "X86_V4")
	if len(without) != 1 {
		t.Fatalf("NumPy is to do without %q", without)
	}
	for _, env := range [][]string{nil, without} {
		c := exec.CommandContext(t.Context(), "/usr/bin/python3", "-W", "error", "-c", "import numpy, sys; m = sys.modules.get('numpy._core._multiarray_umath') or sys.modules['numpy.core._multiarray_umath']; print(any(m.__cpu_features__.get(f) for f in ('AVX2', 'X86_V3')))")
		c.Env = slices.Concat([]string{"LC_ALL=C.UTF-8"}, env)
		out, err := c.CombinedOutput()
		if want := map[bool]string{true: "True\n", false: "False\n"}[env == nil]; err != nil || string(out) != want {
			t.Errorf("with %q NumPy says %q, %v; want %q", env, out, err, want)
		}
	}
}

// numpy reports whether the interpreter of the tests has NumPy.
func numpy(t *testing.T) bool {
	t.Helper()
	return exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import numpy").Run() == nil
}

package mle

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/shard"
)

const forest = `import pandas as pd
from sklearn.ensemble import RandomForestClassifier
train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
model = RandomForestClassifier(20, random_state=0).fit(train[["length"]], train["kind"])
pd.DataFrame({"id": test["id"], "kind": model.predict(test[["length"]])}).to_csv("submission.csv", index=False)
`

// BenchmarkProgram is a short program of scikit-learn from its text to its grade,
// as many at a time as there are cores: in a new interpreter, in a fork of a warm
// one, and, for comparison, by a bare Python without a sandbox.
func BenchmarkProgram(b *testing.B) {
	modules := []string{"pandas", "sklearn.ensemble"}
	if exec.Command("/usr/bin/python3", "-c", "import "+strings.Join(modules, ", ")).Run() != nil {
		b.Skip("/usr/bin/python3 has no scikit-learn and pandas")
	}
	s := DefaultSettings()
	s.Program.Interpreter = "/usr/bin/python3"
	if missing := sandbox.Probe().Missing(s.Sandbox.Require); len(missing) > 0 {
		b.Skipf("this kernel does not give %s", strings.Join(missing, ", "))
	}
	folder := seeds(b, filepath.Join(b.TempDir(), "seeds"))
	for name, warm := range map[string][]string{"new": nil, "warm": modules} {
		s.Sandbox.Warm, s.Limits.WallSeconds, s.Limits.MemoryMB = warm, 60, 1024
		e := must.Get(build(*s, Data{Tasks: []string{folder}}, ""))(b)
		b.Run(name, func(b *testing.B) {
			perMinute(b, func() bool {
				v, err := e.Score(b.Context(), attempt(e.Tasks("train")[0], "```python\n"+forest+"```"))
				return err == nil && v.Outcome == shard.OutcomeOK
			})
		})
	}
	b.Run("bare", func(b *testing.B) {
		var number atomic.Int64
		perMinute(b, func() bool {
			dir := filepath.Join(b.TempDir(), strconv.FormatInt(number.Add(1), 10))
			if os.MkdirAll(dir, 0o755) != nil || os.Symlink(filepath.Join(folder, "public"), filepath.Join(dir, "input")) != nil {
				return false
			}
			c := exec.Command("/usr/bin/python3", "-c", forest)
			c.Dir, c.Env = dir, append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
			return c.Run() == nil
		})
	})
}

// perMinute reports how often f can be done in a minute on all cores.
func perMinute(b *testing.B, f func() bool) {
	if !f() { // the first pays for what is warm from then on
		b.Fatal("the program failed")
	}
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !f() {
				b.Error("the program failed")
			}
		}
	})
	b.ReportMetric(60*float64(b.N)/b.Elapsed().Seconds(), "programs/min")
}

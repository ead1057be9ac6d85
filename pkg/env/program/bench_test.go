package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// python makes an environment of a Python file, with the file that speaks for it.
func python(t testing.TB, s Settings, words []string, code, data string) *Env {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	shim := must.Get(filepath.Abs("../../../data/program/lathe_env.py"))(t)
	folder := t.TempDir()
	for name, content := range map[string]string{"reward.py": code, "t.jsonl": data} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	s.Program.Command = append([]string{"python3", shim}, words...)
	d := Data{}
	d.Train.SetDefaults()
	d.Test.SetDefaults()
	d.Train.Files = []string{"t.jsonl"}
	e := must.Get(build(s, d, 1, folder))(t)
	t.Cleanup(e.Close)
	return e
}

// Microseconds of a score, by the size of a request; a plain loop in Python takes
// 0.2 for this reward.
func BenchmarkScore(b *testing.B) {
	for name, batch := range map[string]int{"batch 1": 1, "batch 64": 64} {
		b.Run(name, func(b *testing.B) {
			s := *DefaultSettings()
			s.Program.Batch, s.Program.Processes = batch, 1
			e := python(b, s, []string{"reward.py"}, "def reward(prompt, completion, answer, **task):\n    return float(completion == answer)\n", `{"prompt": "1+1?", "answer": "2"}`)
			a := said(e, 0, "2")
			must.Get(e.Score(b.Context(), a))(b)
			b.ResetTimer()
			judgeAll(b, e, a, b.N, batch)
			b.StopTimer()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/1e6, "heap-MB")
		})
	}
}

// 1,000 rewards that wait for a second each, on 32 programs.
func BenchmarkWaiting(b *testing.B) {
	s := *DefaultSettings()
	s.Program.Processes = 32
	e := python(b, s, []string{"reward.py"}, "import time\n\n\ndef reward(completion):\n    time.sleep(1)\n    return 1\n", `{"prompt": "1+1?", "answer": "2"}`)
	for b.Loop() {
		judgeAll(b, e, said(e, 0, "2"), 1000, 32*s.Program.Batch)
	}
}

// judgeAll scores an attempt n times, so many at a time.
func judgeAll(b *testing.B, e *Env, a env.Attempt, n, atATime int) {
	b.Helper()
	var all sync.WaitGroup
	places := make(chan struct{}, atATime)
	for range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if v, err := e.Score(b.Context(), a); err != nil || v.Reward != 1 {
				b.Errorf("reward %v, %v", v.Reward, err)
			}
		})
	}
	all.Wait()
}

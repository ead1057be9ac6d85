package command_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A sealed file that was copied from another place of the run, or from another
// run, is not taken for the run's own: whoever meets it says so, verify lists it,
// and with --repair the run makes its own again, to the same bytes.
func TestForeignFilesInARun(t *testing.T) {
	settings := []string{"schedule.iterations=3", "rollout.shards=3", "schedule.gradient_shards=2"}
	own, other, longer := filepath.Join(t.TempDir(), "own"), filepath.Join(t.TempDir(), "other"), filepath.Join(t.TempDir(), "longer")
	lathe(t, exitcode.OK, runArgs(own, smoke, settings...)...)
	lathe(t, exitcode.OK, runArgs(other, smoke, append(settings, "seed=7")...)...)
	lathe(t, exitcode.OK, runArgs(longer, smoke, append(settings, "rollout.max_new_tokens=3")...)...)
	want := essence(t, own)

	for _, c := range []struct {
		name, from, file string // file of the run that is replaced
		take             string // file of the other run; empty for the same
		says             string
	}{
		{"rollout of another seed", other, "iter/000002/rollout/00001.parquet", "", "it is of run"},
		{"score of another seed", other, "iter/000003/score/00000.parquet", "", "it is of run"},
		{"policy of another seed", other, "policy/v000002", "", "it is of run"},
		{"warm policy of another seed", other, "policy/v000000", "", "it is of run"},
		{"batch of another recipe", longer, "iter/000002/batch.arrow", "", "it is of run"},
		{"closing of another run", other, "iter/000002/close.json", "", "it is of run"},
		{"plan of another iteration", own, "iter/000003/plan.parquet", "iter/000002/plan.parquet", "it is the work of buffer-000001-00000"},
		{"score of another shard's place", own, "iter/000002/score/00002.parquet", "iter/000003/score/00002.parquet", "it is the work of score-000003-00002"},
		{"evaluation of another version", own, "eval/v000003/00000.parquet", "eval/v000000/00000.parquet", "it is the work of evaluate-000000-00000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			take := c.take
			if take == "" {
				take = c.file
			}
			dir := copyRun(t, own)
			at := filepath.Join(dir, filepath.FromSlash(c.file))
			replaceSealed(t, filepath.Join(c.from, filepath.FromSlash(take)), at)
			// Whatever comes after it is still to be done.
			for _, later := range []string{"policy/v000003", "policy/v000003.optim", "eval/v000003/00000.parquet"} {
				if path := filepath.Join(dir, later); later != c.file {
					if err := errors.Join(os.RemoveAll(seal.ManifestPath(path)), os.RemoveAll(path)); err != nil {
						t.Fatal(err)
					}
				}
			}
			e := lathe(t, exitcode.Data, "verify", dir)
			if !strings.Contains(e.stdout, c.file+`: `) || !strings.Contains(e.stdout, c.says) {
				t.Errorf("verify does not name it:\n%s", e.stdout)
			}
			run := execute(t, nil, "lathe", "run", "--run", dir)
			if run.code == exitcode.OK {
				// Nothing that is still to be done reads it.
				if e := lathe(t, exitcode.Data, "verify", dir); !strings.Contains(e.stdout, c.says) {
					t.Errorf("after the run, verify does not name it:\n%s", e.stdout)
				}
			} else if run.code != exitcode.Data || !strings.Contains(run.stderr, c.says) || !strings.Contains(run.stderr, "lathe verify") {
				t.Errorf("lathe run: exit code %d\n%s", run.code, run.stderr)
			}
			lathe(t, exitcode.OK, "verify", "--repair", dir)
			lathe(t, exitcode.OK, "run", "--run", dir)
			clean(t, dir)
			if diff := cmp.Diff(want, essence(t, dir)); diff != "" {
				t.Errorf("digests (-own +after the repair):\n%s", diff)
			}
		})
	}
}

// replaceSealed copies a sealed file or folder with its manifest, which gets the
// name that it needs there.
func replaceSealed(t *testing.T, from, to string) {
	t.Helper()
	for _, p := range [][2]string{{from, to}, {seal.ManifestPath(from), seal.ManifestPath(to)}} {
		info, err := os.Stat(p[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(p[1]); err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			if err := os.CopyFS(p[1], os.DirFS(p[0])); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := os.ReadFile(p[0])
		if err == nil {
			err = os.WriteFile(p[1], content, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

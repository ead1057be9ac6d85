package command_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// TestTakenScores: where the seconds that programs took are weights, no run comes to the
// policy of another; one that takes the scores of another does, to the byte.
func TestTakenScores(t *testing.T) {
	t.Parallel()
	settings := append(playPrograms(t), "factors=[duration]")
	folder := t.TempDir()
	carry := func(name string, more ...string) (policy, said string) { // the logs of its score tasks
		t.Helper()
		dir := filepath.Join(folder, name)
		lathe(t, exitcode.OK, append(runArgs(dir, programs, settings...), more...)...)
		m, err := seal.Verify(t.Context(), filepath.Join(dir, "policy", "v000002"), seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		logs, err := filepath.Glob(filepath.Join(dir, "logs", "score-*.log"))
		if err != nil || len(logs) == 0 {
			t.Fatalf("no logs: %v", err)
		}
		for _, log := range logs {
			content, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			said += string(content)
		}
		return m.ContentSHA256, said
	}
	want, _ := carry("first")
	if other, _ := carry("anew"); other == want {
		t.Errorf("scored again, a policy is %s as well: the seconds are no weights", other)
	}
	first := filepath.Join(folder, "first")
	if got, said := carry("taken", "--scores", first); got != want || strings.Contains(said, "scored again") {
		t.Errorf("with the scores of another run the policy is %s, its is %s\n%s", got, want, said)
	}
	ran(t, filepath.Join(folder, "taken"))
	says := func(name, want string) {
		t.Helper()
		if text := lathe(t, exitcode.OK, "report", filepath.Join(folder, name)).stdout; !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("the report of the run %q does not say %q:\n%s", name, want, text)
		}
	}
	says("taken", `(?m)^taken +\d+ of \d+ score files as in `+regexp.QuoteMeta(first)+"$")
	lathe(t, exitcode.OK, "verify", filepath.Join(folder, "taken"))
	lathe(t, exitcode.OK, "replay", filepath.Join(folder, "taken"), "--stage", "score", "--iter", "1")

	// Its recipe and its score files are enough.
	kept := filepath.Join(folder, "kept")
	for _, pattern := range []string{"recipe.yaml*", "iter/*/score/*", "iter/*/w*/score/*"} {
		files, err := fs.Glob(os.DirFS(first), pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, name := range files {
			content, err := os.ReadFile(filepath.Join(first, name))
			err = errors.Join(err, os.MkdirAll(filepath.Dir(filepath.Join(kept, name)), 0o777), os.WriteFile(filepath.Join(kept, name), content, 0o666))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, said := carry("from files", "--scores", kept); got != want || strings.Contains(said, "scored again") {
		t.Errorf("with the score files of another run the policy is %s, its is %s\n%s", got, want, said)
	}
	lathe(t, exitcode.OK, "verify", filepath.Join(folder, "from files"))
	lathe(t, exitcode.Data, append(runArgs(filepath.Join(folder, "nothing"), programs, settings...), "--scores", filepath.Join(folder, "none"))...)

	lathe(t, exitcode.Usage, append(runArgs(filepath.Join(folder, "other"), programs, append(slices.Clone(settings), "env.max_turns=3")...), "--scores", first)...)
	lathe(t, exitcode.Usage, append(runArgs(filepath.Join(folder, "anew"), programs, settings...), "--scores", first)...)
	lathe(t, exitcode.Usage, "run", "--run", filepath.Join(folder, "anew"), "--scores", first)

	for _, path := range []string{"00000.parquet", "00000.parquet.json"} {
		if err := os.Remove(filepath.Join(first, "iter", "000002", "score", path)); err != nil {
			t.Fatal(err)
		}
	}
	if _, said := carry("in part", "--scores", first); !strings.Contains(said, "score-000002-00000 is scored again") {
		t.Errorf("it is not reported that a task is scored again:\n%s", said)
	}
	says("in part", `(?m)^taken +\d+ of \d+ score files as in .*; why the others were scored again: lathe logs RUN --stage score$`)
}

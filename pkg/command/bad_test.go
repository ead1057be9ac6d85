package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// refused checks that lathe run refuses with an exit code and a message, says
// nothing on standard output, and leaves nothing where the run was to be.
func refused(t *testing.T, code int, want, dir string, args ...string) {
	t.Helper()
	e := execute(t, nil, "lathe", args...)
	if e.code != code {
		t.Errorf("exit code %d, want %d", e.code, code)
	}
	if !strings.HasPrefix(e.stderr, "lathe: ") || !strings.Contains(e.stderr, want) {
		t.Errorf("stderr\n%swant\n%s", e.stderr, want)
	}
	if strings.Count(e.stderr, "lathe: ") != 1 || strings.Contains(e.stderr, "goroutine") {
		t.Errorf("stderr is not one message:\n%s", e.stderr)
	}
	if e.stdout != "" {
		t.Errorf("stdout is %q", e.stdout)
	}
	if entries, err := os.ReadDir(dir); err == nil {
		t.Errorf("the run folder was made, and holds %d names", len(entries))
	}
}

// Every recipe of the corpus of bad ones ends lathe run with 64 and the
// message that it has there.
func TestBadRecipes(t *testing.T) {
	const folder = "../recipe/testdata/bad"
	text, err := os.ReadFile(folder + "/messages.txt")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split("\n"+string(text), "\n== ")[1:]
	for _, section := range sections {
		name, message, _ := strings.Cut(strings.TrimSuffix(section, "\n"), "\n")
		message = strings.ReplaceAll(message, "testdata/bad", folder)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			refused(t, exitcode.Usage, message, dir, "run", filepath.Join(folder, name), "--run", dir)
		})
	}
	t.Logf("%d recipes", len(sections))
}

// Every bad data file ends lathe run with 65 and its name.
func TestBadData(t *testing.T) {
	const folder = "../env/math/dataset/testdata/bad"
	settings := map[string][]string{ // what makes it bad
		"no_marker.jsonl":   {`data.train.fields.answer_marker="####"`},
		"marker_last.jsonl": {`data.train.fields.answer_marker="####"`},
		"id_twice.jsonl":    {"data.train.fields.id=id"}, "id_missing.jsonl": {"data.train.fields.id=id"}, "id_list.jsonl": {"data.train.fields.id=id"},
		"kind_object.jsonl": {"data.train.fields.kind=kind"},
		"level_word.jsonl":  {"data.train.fields.level=level"}, "level_big.jsonl": {"data.train.fields.level=level"},
		"filtered_out.jsonl": {"data.train.filter=[{field: module, in: [nothing]}]"},
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Run(entry.Name(), func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(filepath.Join(folder, entry.Name()))
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "run")
			more := append([]string{"data.train.generate=null", "data.train.files=[" + path + "]"}, settings[entry.Name()]...)
			refused(t, exitcode.Data, path, dir, runArgs(dir, smoke, more...)...)
		})
	}
	t.Logf("%d data files", len(entries))
}

// What else a person may name that cannot be meant.
func TestBadRuns(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, []byte("hello"), 0o666); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(folder, "run")
	for _, c := range []struct {
		name string
		code int
		want string
		args []string
	}{
		{"no recipe", exitcode.Usage, "nowhere.yaml", runArgs(dir, filepath.Join(folder, "nowhere.yaml"))},
		{"a folder for a recipe", exitcode.Usage, folder, runArgs(dir, folder)},
		{"no data file", exitcode.Data, "nowhere.jsonl", runArgs(dir, smoke, "data.train.generate=null", "data.train.files=[/nowhere.jsonl]")},
		{"more problems than there are", exitcode.Usage, "evaluation.problems", runArgs(dir, smoke, "evaluation.problems=17")},
		{"no policy folder", exitcode.Usage, "policy.path", runArgs(dir, smoke, "policy.new=null", "policy.path=/nowhere")},
		{"an empty folder for a policy", exitcode.Usage, "policy.path", runArgs(dir, smoke, "policy.new=null", "policy.path="+folder)},
		{"a field that is not there", exitcode.Usage, "rollout.shard", runArgs(dir, smoke, "rollout.shard=3")},
		{"a setting without a value", exitcode.Usage, "seed", runArgs(dir, smoke, "seed")},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.code, c.want, dir, c.args...) })
	}
	t.Run("a file for a run folder", func(t *testing.T) {
		e := execute(t, nil, "lathe", runArgs(file, smoke)...)
		if e.code == exitcode.OK || e.code == exitcode.Bug || !strings.Contains(e.stderr, file) {
			t.Errorf("exit code %d\n%s", e.code, e.stderr)
		}
		if content, err := os.ReadFile(file); err != nil || string(content) != "hello" {
			t.Errorf("the file was changed: %q, %v", content, err)
		}
	})
}

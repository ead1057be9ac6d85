package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// A run may be named by a link, and folders in it may be links to other disks:
// every command sees the run that is there.
func TestLinks(t *testing.T) {
	t.Parallel()
	dir, disk := filepath.Join(t.TempDir(), "run"), t.TempDir()
	lathe(t, exitcode.OK, runArgs(dir, smoke, "schedule.iterations=2")...)
	want := essence(t, dir)
	move := func(name string) {
		t.Helper()
		if err := os.Rename(filepath.Join(dir, filepath.FromSlash(name)), filepath.Join(disk, filepath.Base(name))); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(disk, filepath.Base(name)), filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
	}
	move("policy/v000001") // a sealed folder
	move("policy")
	move("iter/000002/rollout")
	if err := os.Symlink(dir, filepath.Join(dir, "self")); err != nil { // for whoever walks in circles
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	whole := lathe(t, exitcode.OK, "verify", dir).stdout
	if through := lathe(t, exitcode.OK, "verify", link).stdout; through != whole {
		t.Errorf("verify through a link says\n%s, without\n%s", through, whole)
	}
	for _, named := range []string{link, filepath.Dir(link)} { // a run, and a folder of runs
		if e := lathe(t, exitcode.OK, "compare", named); !strings.Contains(e.stdout, "\nsmoke    1       ") {
			t.Errorf("compare %s says\n%s", named, e.stdout)
		}
	}

	weights := filepath.Join(dir, "policy", "v000002", "model.safetensors")
	content, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	for path, content := range map[string][]byte{weights: content, filepath.Join(dir, "iter/000002/rollout/00000.parquet"): []byte("damaged")} {
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	e := lathe(t, exitcode.Data, "verify", link)
	for _, name := range []string{"policy/v000002: ", "iter/000002/rollout/00000.parquet: "} {
		if !strings.Contains(e.stdout, name) {
			t.Errorf("verify through a link does not find the damage in %s:\n%s", name, e.stdout)
		}
	}
	lathe(t, exitcode.OK, "verify", "--repair", link)
	lathe(t, exitcode.OK, "run", "--run", link)
	lathe(t, exitcode.OK, "verify", link)
	if diff := cmp.Diff(want, essence(t, link)); diff != "" {
		t.Errorf("digests (-before +after the repair):\n%s", diff)
	}
}

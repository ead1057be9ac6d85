package command_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// stranger owns the runs and the links in them of [TestStrangersLinks].
const stranger = 65533

// contents are the names under a folder, with a digest of each file. Links are not
// followed.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil || !entry.Type().IsRegular() {
			all[name] = entry.Type().String()
			return err
		}
		content, err := os.ReadFile(path)
		all[name] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// touched are the places that a command writes to or removes, and the folders above
// them: of those whose last two names differ by numbers alone one, and one of all figures.
func touched(before, after map[string]string) []string {
	all := maps.Clone(before)
	maps.Copy(all, after)
	digits := regexp.MustCompile(`[0-9]+|[^/]*(\.svg)$`)
	places, kinds := map[string]bool{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if before[name] == after[name] {
			continue
		}
		for ; name != "."; name = filepath.Dir(name) {
			kind := digits.ReplaceAllString(filepath.Join(filepath.Base(filepath.Dir(name)), filepath.Base(name)), "0$1")
			if !kinds[kind] {
				kinds[kind], places[name] = true, true
			}
		}
	}
	return slices.Sorted(maps.Keys(places))
}

// TestStrangersLinks: whoever looks at a stranger's run, or holds it, writes nowhere but
// in it, whatever links the stranger has put in the places that the command writes to.
// The places are found by running the command on the run without links.
func TestStrangersLinks(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("run this test as root: it makes links of other users")
	}
	run := filepath.Join(t.TempDir(), "run")
	lathe(t, exitcode.OK, runArgs(run, smoke, "schedule.iterations=2", "warm_start.steps=2", "warm_start.chunk=2", "evaluation.problems=4")...)
	for _, name := range []string{"report", "iter/000001/metrics.parquet", "iter/000001/metrics.parquet.json", "iter/000001/usage.parquet", "iter/000001/usage.parquet.json"} {
		if err := os.RemoveAll(filepath.Join(run, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		damage string // a file that is cut off before; empty for none
		args   []string
		writes string // a place among those that are tried
	}{
		{"", []string{"report"}, "report/index.html"},
		{"", []string{"gpu-report"}, "report/gpu.html"},
		{"", []string{"pause"}, "jobs/paused.json"},
		{"", []string{"cancel"}, "jobs/paused.json"},
		{"", []string{"compact"}, "iter/000001/rollout"},
		{"", []string{"prune", "--keep-every", "2"}, "policy/v000001"},
		{"iter/000001/ledger.parquet", []string{"verify", "--repair"}, "iter/000001/ledger.parquet"},
		{"", []string{"compare"}, ""},
		{"", []string{"status"}, ""},
		{"", []string{"logs"}, ""},
		{"", []string{"verify"}, ""},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			copied := func() string {
				dir := copyRun(t, run)
				if c.damage != "" {
					if err := os.Truncate(filepath.Join(dir, c.damage), 10); err != nil {
						t.Fatal(err)
					}
				}
				return dir
			}
			plain := copied()
			before := contents(t, plain)
			lathe(t, exitcode.OK, append(c.args, plain)...)
			after := contents(t, plain)
			places := touched(before, after)
			if c.writes == "" != (len(places) == 0) || c.writes != "" && !slices.Contains(places, c.writes) {
				t.Fatalf("it writes to %q, want %q among them", places, c.writes)
			}
			for _, place := range places {
				dir := copied()
				link, target := filepath.Join(dir, place), filepath.Join(t.TempDir(), "mine")
				var err error
				switch _, exists := before[place]; {
				case exists:
					err = os.Rename(link, target)
				case after[place] == fs.ModeDir.String():
					err = os.Mkdir(target, 0o777)
				default:
					err = os.WriteFile(target, []byte("mine"), 0o666)
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(filepath.Dir(link), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(target, link); err != nil {
					t.Fatal(err)
				}
				err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
					if err == nil {
						err = os.Lchown(path, stranger, stranger)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				mine := contents(t, target)
				e := execute(t, nil, "lathe", append(c.args, dir)...)
				// What a link brings into a run is damage to whoever reads it.
				if e.code != exitcode.OK && e.code != exitcode.Usage && e.code != exitcode.Data || e.code == exitcode.Usage && !strings.Contains(e.stderr, "is a link of user 65533") {
					t.Errorf("%s is a link: exit code %d\n%s", place, e.code, e.stderr)
				}
				if now := contents(t, target); !maps.Equal(mine, now) {
					t.Errorf("%s is a link: what it leads to was %v and is %v", place, mine, now)
				}
			}
		})
	}
}

package rundir

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
)

// A run that somebody else could have written is not trusted, and everything
// else is: what this user or root owns, and groups of one user.
func TestTrusted(t *testing.T) {
	t.Setenv(TrustVariable, "")
	other := func(path string) error { return os.Chown(path, 4321, -1) }
	mode := func(m os.FileMode) func(string) error {
		return func(path string) error { return os.Chmod(path, m) }
	}
	for _, c := range []struct {
		name, file string
		change     func(path string) error
		says       string // empty: it is trusted
		umask      string // LATHE_UMASK
		asRoot     bool
	}{
		{name: "own folder", file: ".", change: mode(0o750)},
		{name: "readable by all", file: ".", change: mode(0o755)},
		{name: "a folder for all", file: ".", change: mode(0o777), says: "may be written by every user"},
		{name: "a folder for all, sticky", file: ".", change: mode(0o777 | os.ModeSticky)},
		{name: "a recipe for all", file: "recipe.yaml", change: mode(0o666), says: "may be written by every user"},
		{name: "records for all", file: "jobs", change: mode(0o777), says: "may be written by every user"},
		{name: "a site profile for all", file: "jobs/site.yaml", change: mode(0o646), says: "may be written by every user"},
		{name: "a folder of another", file: ".", change: other, says: "belongs to user 4321", asRoot: true},
		{name: "a recipe of another", file: "recipe.yaml", change: other, says: "belongs to user 4321", asRoot: true},
		{name: "records of a user of the system", file: "jobs", change: func(path string) error { return os.Chown(path, 1, -1) }, says: "belongs to user ", asRoot: true},
		{name: "an extension for all", file: "recipe.1.yaml", change: mode(0o666), says: "may be written by every user"},
		{name: "tasks for all", file: "tasks.parquet", change: mode(0o666), says: "may be written by every user"},
		{name: "a recipe for all, sticky", file: "recipe.yaml", change: mode(0o666 | os.ModeSticky), says: "may be written by every user"},
		{name: "root's own group", file: ".", change: mode(0o770), asRoot: true},
		{name: "a group that has no say", file: ".", umask: "8", change: func(path string) error {
			if err := os.Chown(path, -1, 5432); err != nil {
				return err
			}
			return os.Chmod(path, 0o770)
		}, says: "may be written by group 5432", asRoot: true},
		{name: "a group that writes, sticky", file: ".", change: func(path string) error {
			if err := os.Chown(path, -1, 5432); err != nil {
				return err
			}
			return os.Chmod(path, 0o770|os.ModeSticky)
		}, asRoot: true},
		{name: "a group", file: ".", change: func(path string) error {
			return os.Chown(path, -1, 5432)
		}, asRoot: true},
		{name: "a group that writes", file: ".", change: func(path string) error {
			if err := os.Chown(path, -1, 5432); err != nil {
				return err
			}
			return os.Chmod(path, 0o770)
		}, says: "may be written by group 5432", asRoot: true},
		{name: "a group that the user lets write", file: ".", umask: "007", change: func(path string) error {
			if err := os.Chown(path, -1, 5432); err != nil {
				return err
			}
			return os.Chmod(path, 0o2770)
		}, asRoot: true},
		{name: "a group that the user keeps from writing", file: ".", umask: "027", change: func(path string) error {
			if err := os.Chown(path, -1, 5432); err != nil {
				return err
			}
			return os.Chmod(path, 0o2770)
		}, says: "may be written by group 5432", asRoot: true},
		{name: "a folder of another, whatever the umask", file: ".", umask: "007", change: other, says: "belongs to user 4321", asRoot: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(umaskVariable, c.umask)
			if c.asRoot && os.Geteuid() != 0 {
				t.Skip("only root gives files away: run this test as root")
			}
			d := graph.Dir(filepath.Join(t.TempDir(), "run"))
			for _, folder := range []string{string(d), d.Jobs()} {
				if err := os.Mkdir(folder, 0o750); err != nil {
					t.Fatal(err)
				}
			}
			site := filepath.Join(d.Jobs(), "site.yaml")
			for _, path := range []string{d.Identity(), d.Recipe(), d.Extension(1), d.Tasks(), site} {
				if err := os.WriteFile(path, nil, 0o640); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.change(filepath.Join(string(d), c.file)); err != nil {
				t.Fatal(err)
			}
			err := Trusted(d, site)
			switch {
			case c.says == "" && err != nil:
				t.Errorf("it is not trusted: %v", err)
			case c.says != "" && (exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), c.says) || len(exitcode.Hints(err)) == 0):
				t.Errorf("%v, want %q", err, c.says)
			}
			t.Setenv(TrustVariable, "1")
			if err := Trusted(d, site); err != nil {
				t.Errorf("although it is trusted: %v", err)
			}
		})
	}
}

// TestOtherWriterUnknown: what cannot be told is not trusted.
func TestOtherWriterUnknown(t *testing.T) {
	t.Setenv(TrustVariable, "")
	info, err := fs.Stat(fstest.MapFS{"x": {}}, "x")
	if err != nil {
		t.Fatal(err)
	}
	if who := otherWriter(info); who != "has an owner that this system does not tell" {
		t.Errorf("a file without an owner: %q", who)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Trusted(graph.Dir(t.TempDir()), filepath.Join(file, "below")); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "finding out who may write") {
		t.Errorf("what cannot be looked at: %v", err)
	}
}

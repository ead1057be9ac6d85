package plainfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// TestCheckLinks: nobody is led into files of a third.
func TestCheckLinks(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("run this test as root: it makes files of other users")
	}
	const stranger, another = 65533, 65532
	dir := t.TempDir()
	folder := func(name string, owner int) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, to string, owner int) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	folder("mine", 0)
	folder("theirs", stranger)
	folder("other", another)
	folder("run", stranger)
	link("run/report", filepath.Join(dir, "mine"), stranger)
	link("run/near", "../mine", stranger)
	link("run/third", "../other", stranger)
	link("run/disk", "../theirs", stranger)
	link("run/own", "../mine", 0)
	link("run/chain", "own/../run/report", 0)
	link("run/loop", "loop", stranger)
	link("run/nowhere", "../nowhere", stranger)
	link("theirs/back", "../mine", stranger)
	link("run/whole", dir, 0)
	link("run/hop", ".", 0)
	link("run/circle", "circle", 0)
	hops := func(n int) string { return "run/" + strings.Repeat("hop/", n) + "report/f" }
	for name, refused := range map[string]string{
		"run/index.html": "", "run/new/folder/f": "", "mine/f": "",
		"run/report/index.html": "report", "run/report": "report", "run/near/f": "near", "run/third/f": "third", "run/chain/f": "report",
		"run/disk/f": "", "run/own/f": "", "run/disk/back/f": "back",
		".//run//./report/f": "report", "run/whole/run/report/f": "report",
		hops(mostLinks): "report", hops(mostLinks + 1): "", "run/circle/f": "", // more links than the kernel follows
		"run/loop/f": "loop", "run/nowhere/f": "nowhere", "run/disk/../run/report/f": "report",
	} {
		path := dir + "/" + name
		err := CheckLinks(path)
		if (err == nil) != (refused == "") || err != nil && (exitcode.Code(err) != exitcode.Usage || !strings.Contains(err.Error(), "/"+refused+`" is a link of user 65533`)) {
			t.Errorf("%s: %v", name, err)
		}
		if err := Write(path, []byte("x")); refused != "" && err == nil {
			t.Errorf("%s is written to", name)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, filepath.Join(dir, "run/report/f"))
	if err != nil || CheckLinks(relative) == nil {
		t.Errorf("%s, from where this runs: %v", relative, err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "mine"))
	if err != nil || len(left) != 1 { // f, by the link that is ours
		t.Errorf("%v, %v", left, err)
	}
	if err := Remove(dir + "/run/report/f"); err == nil {
		t.Error("a stranger's link leads to what is removed")
	}
	if err := Remove(dir + "/run/report"); err != nil { // the link
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "mine")); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestCreate: what is there is truncated or added to, and a link to a file is none.
func TestCreate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b")
	for _, text := range []string{"long", "s"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Create(path, os.O_APPEND)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("t"); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "st" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Symlink(path, path+"-link"); err != nil {
		t.Fatal(err)
	}
	if err := Write(path+"-link", nil); err == nil {
		t.Error("a link is written through")
	}
	if err := Write(filepath.Join(path, "below"), nil); err == nil {
		t.Error("a file is taken for a folder")
	}
	for range 2 { // what is not there is removed too
		if err := Remove(path); err != nil {
			t.Error(err)
		}
	}
	if err := Remove(filepath.Dir(path)); err == nil {
		t.Error("a folder with a link in it is removed")
	}
}

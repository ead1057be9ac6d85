// Package nvmltest builds a libnvidia-ml.so.1 that says what a script tells it to,
// so that tests go the way through the real library's interface without a GPU.
package nvmltest

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

//go:embed testdata/nvml.c
var source []byte

// Name is what the driver calls its library.
const Name = "libnvidia-ml.so.1"

// Script is the variable that names the script; its lines are explained in
// testdata/nvml.c.
const Script = "LATHE_NVML_STUB"

// Compiler is the C compiler. Without one the test is skipped.
func Compiler(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath(compiler()); err != nil {
		t.Skipf("there is no C compiler: %v", err)
	}
	return compiler()
}

func compiler() string { return cmp.Or(os.Getenv("CC"), "cc") }

// built are the libraries of Build, without and with what is old, each compiled once for all tests of a process.
var built = [2]func() ([]byte, error){sync.OnceValues(func() ([]byte, error) { return compile() }), sync.OnceValues(func() ([]byte, error) { return compile("-DLATHE_OLD") })}

func compile(flags ...string) (library []byte, err error) {
	folder, err := os.MkdirTemp("", "nvmltest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file, path := filepath.Join(folder, "nvml.c"), filepath.Join(folder, Name)
	if err := os.WriteFile(file, source, 0o644); err != nil {
		return nil, err
	}
	arguments := append([]string{"-O1", "-w", "-shared", "-fPIC", "-o", path, file}, flags...)
	if out, err := exec.Command(compiler(), arguments...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the library: %w\n%s", err, out)
	}
	return os.ReadFile(path)
}

// Build builds the library and returns its path, in a folder of its own. old
// leaves out what drivers before Hopper did not have. Without a C compiler the
// test is skipped.
func Build(t testing.TB, old bool) string {
	t.Helper()
	Compiler(t)
	which := 0
	if old {
		which = 1
	}
	library, err := built[which]()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), Name)
	if err := os.WriteFile(path, library, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// WriteScript writes a script into a folder of the test and returns its path.
func WriteScript(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

package safetensors

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMapped(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := os.WriteFile(path, encode("{}", nil), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, ok := f.bytes.(mapped)
	if !ok || len(m.bytes) != 10 {
		t.Fatalf("a file of 10 bytes is read through %T", f.bytes)
	}
	for at, want := range map[int64]int64{0: 0, 4095: 0, 4096: 4096, 10_000: 8192} {
		if got := pageOf(at, 4096); got != want {
			t.Errorf("the page of byte %d begins at %d, want %d", at, got, want)
		}
	}
	// Only a fault of the file's pages is an error of the file.
	defer func() {
		if caught := recover(); caught != "our own" {
			t.Errorf("a panic of the user became %v", caught)
		}
	}()
	err = m.with(0, 1, nil, func([]byte) { panic("our own") })
	t.Errorf("a panic of the user became the error %v", err)
}

package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/asm"
)

func TestUpToDate(t *testing.T) {
	t.Parallel()
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	stale, err := asm.Stale(filepath.Join("..", ".."), files)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stale {
		t.Errorf("%s is out of date, run go generate", name)
	}
}

// A tile that adds to C once went past what loads the address to fetch, fetched what the
// registers happened to point to, and was slower than without.
func TestLoopsLoadWhatTheyFetch(t *testing.T) {
	t.Parallel()
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tile_avx512_amd64.s", "tile_bf16_avx512_amd64.s"} {
		loops := bytes.Count(files[name], []byte("PREFETCHT1 (AX)"))
		for _, load := range []string{"MOVQ tile_fetch(AX), AX", "start:\n\tMOVQ tile_fetchStep(AX), SI"} {
			if found := bytes.Count(files[name], []byte(load)); found != loops || loops != tileRows512 {
				t.Errorf("%s: %d loops fetch, %d times there is %q", name, loops, found, load)
			}
		}
		if jump := []byte("JMP  rows1loop"); bytes.Contains(files[name], jump) {
			t.Errorf("%s: %s leaves out what loads the address", name, jump)
		}
	}
}

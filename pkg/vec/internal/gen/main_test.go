package main

import (
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

package asm_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/asm"
)

func TestFile(t *testing.T) {
	t.Parallel()
	f := asm.NewFile("textflag.h")
	f.MaskTable("masks", 2)
	f.Function("twice", "(x *float32, n int)", 16)
	f.Label("loop%d", 1)
	f.Op("ADDQ $%d, CX", 4)
	const want = asm.Generated + `//go:build amd64 && !noasm

#include "textflag.h"

DATA masks<>+0(SB)/8, $-1
DATA masks<>+8(SB)/8, $0
GLOBL masks<>(SB), RODATA|NOPTR, $16

// func twice(x *float32, n int)
TEXT ·twice(SB), NOSPLIT, $0-16
loop1:
	ADDQ $4, CX
`
	if got := f.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	for name, text := range map[string]string{"same.s": "a", "other.s": "b"} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := asm.Stale(directory, map[string][]byte{"same.s": []byte("a"), "other.s": []byte("c"), "missing.s": nil})
	if want := []string{"missing.s", "other.s"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

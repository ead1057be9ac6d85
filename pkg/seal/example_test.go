package seal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/seal"
)

// A file is whole or not there: it gets its name when it is committed, and is
// done when the manifest beside it matches.
func ExampleCreate() {
	folder, err := os.MkdirTemp("", "seal-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "answers.txt")

	w, err := seal.Create(path, seal.AttemptFromEnv())
	if err != nil {
		panic(err)
	}
	defer w.Abort() // drops what is not committed
	fmt.Fprintln(w, "42")

	ctx := context.Background()
	_, err = seal.Read(ctx, path, seal.Options{})
	fmt.Println("before:", errors.Is(err, seal.ErrNotSealed))

	if _, err := w.Commit(seal.Manifest{Stage: "example", PolicyVersion: -1, Rows: 1}); err != nil {
		panic(err)
	}
	content, manifest, err := seal.Open(ctx, path, seal.Options{})
	fmt.Printf("after: %q, %d row, %d bytes, %v\n", content, manifest.Rows, manifest.Bytes, err)
	// Output:
	// before: true
	// after: "42\n", 1 row, 3 bytes, <nil>
}

// A reader digests what it returns: a byte that changed since is damage, and
// never data.
func ExampleOpen() {
	folder, err := os.MkdirTemp("", "seal-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "answers.txt")
	if _, err := seal.WriteBytes(path, []byte("42\n"), seal.Attempt{}, seal.Manifest{PolicyVersion: -1}); err != nil {
		panic(err)
	}
	if err := os.WriteFile(path, []byte("43\n"), 0o600); err != nil {
		panic(err)
	}
	_, _, err = seal.Open(context.Background(), path, seal.Options{})
	fmt.Println(errors.Is(err, seal.ErrDamaged))
	// Output: true
}

// Of two writers of one name the first one wins; equal content is no conflict,
// so work may be done twice, but is never half done.
func ExampleWriteBytes() {
	folder, err := os.MkdirTemp("", "seal-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "answers.txt")
	for number := range 2 {
		manifest, err := seal.WriteBytes(path, []byte("42\n"), seal.Attempt{Number: number}, seal.Manifest{PolicyVersion: -1})
		if err != nil {
			panic(err)
		}
		fmt.Println("sealed by attempt", manifest.Attempt)
	}
	// Output:
	// sealed by attempt 0
	// sealed by attempt 0
}

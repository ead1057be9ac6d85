package shard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// A disk that fills up in the middle of a file: exit code 74 whatever the
// encoder makes of the error, nothing half sealed, and it works afterwards.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96k"); err != nil {
		t.Skipf("cannot mount a small file system (%v): run this test as root to rehearse a full disk", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	rows := make([]EvaluationRow, 2000)
	sequences := make([]Sequence, 2000)
	for i := range rows {
		rows[i].Response = fmt.Sprintf("%x", shaOf(fmt.Append(nil, i))) // does not compress to nothing
		rows[i].Prompt = fmt.Sprintf("%x", shaOf(fmt.Append(nil, -i)))
		sequences[i].InstanceID = rows[i].Response
	}
	for name, write := range map[string]func(path string) error{
		"eval.parquet": func(path string) error { _, err := Write(path, rows, nil, testAttempt, seal.Manifest{}); return err },
		"batch.arrow": func(path string) error {
			_, err := WriteBatch(path, sequences, testAttempt, seal.Manifest{})
			return err
		},
		"grad.arrow": func(path string) error {
			_, err := WriteTensors(path, []Tensor{{"w", []int{1 << 17}, make([]float32, 1<<17)}}, nil, testAttempt, seal.Manifest{})
			return err
		},
	} {
		path := filepath.Join(dir, name)
		err := write(path)
		if exitcode.Code(err) != exitcode.IO || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want exit code 74", name, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 0 {
			t.Errorf("%s: left behind %v, %v", name, entries, err)
		}
	}
	if _, err := Write(filepath.Join(dir, "small.parquet"), rows[:1], nil, testAttempt, seal.Manifest{}); err != nil {
		t.Errorf("with room: %v", err)
	}
}

package seal

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/phase"
)

// Writer writes one file that is to be sealed. It digests as it goes. A
// Writer is for one goroutine.
type Writer struct {
	path    string
	temp    string
	attempt Attempt
	started time.Time
	file    *os.File
	hash    hash.Hash
	blocks  *blockHash // nil unless parts of the file will be read
	bytes   int64
	err     error // the first failed write
}

// Create opens a temporary file in the folder of path, making the folder if
// need be. End with [Writer.Commit] or [Writer.Abort].
func Create(path string, a Attempt) (*Writer, error) {
	path = filepath.Clean(path)
	f, temp, err := createTemp(path, a)
	if err != nil {
		return nil, err
	}
	return &Writer{path: path, temp: temp, attempt: a, started: a.now(), file: f, hash: sha256.New()}, nil
}

// InBlocks has the blocks of the file digested too, for [OpenAt]. It comes before
// the first Write.
func (w *Writer) InBlocks() { w.blocks = newBlockHash() }

// Write appends to the file.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.file.Write(p)
	w.hash.Write(p[:n])
	if w.blocks != nil {
		w.blocks.write(p[:n])
	}
	w.bytes += int64(n)
	if err != nil {
		w.err = fmt.Errorf("writing %q: %w", w.path, err)
	}
	return n, w.err
}

// Err returns the first error of Write: encoders often hide it.
func (w *Writer) Err() error { return w.err }

// Abort drops the file. It does nothing after Commit.
func (w *Writer) Abort() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return errors.Join(err, os.Remove(w.temp))
}

// Commit seals what was written and returns the manifest that is in place:
// the given one, completed, or an earlier writer's that seals the same name.
// Nothing is left behind when it fails, except possibly a data file without
// a manifest, which the next attempt replaces.
func (w *Writer) Commit(m Manifest) (Manifest, error) {
	defer phase.Enter(phase.Seal)()
	if w.file == nil {
		return Manifest{}, exitcode.Bugf("sealing %q: the writer is closed", w.path)
	}
	if err := w.finish(); err != nil {
		os.Remove(w.temp)
		return Manifest{}, err
	}
	if w.blocks != nil {
		m.Blocks = w.blocks.blocks()
	}
	t := &tempFile{path: w.path, temp: w.temp, spare: w.attempt.tempPath(w.path)}
	defer t.remove()
	m.fill(w.path, w.attempt, w.started, digest{kind: KindFile, bytes: w.bytes, sha256: hex.EncodeToString(w.hash.Sum(nil))})
	return publish(w.path, t, m, w.attempt)
}

// finish makes the temporary file durable and closes it.
func (w *Writer) finish() error {
	f := w.file
	w.file = nil
	if w.err != nil {
		return errors.Join(w.err, f.Close())
	}
	err := f.Sync()
	if err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil && info.Size() != w.bytes {
			err = fmt.Errorf("the file has %d bytes after %d were written", info.Size(), w.bytes)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %q: %w", w.path, err)
	}
	return nil
}

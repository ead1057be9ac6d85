package seal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/phase"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// Options says how patient a reader is.
type Options struct {
	// Visibility is how long to wait for a file that another node may have
	// sealed and that this node cannot see yet. 0 tries once.
	Visibility time.Duration
	// Accept refuses what is sealed well and is not what belongs at its path. Nil
	// takes everything.
	Accept func(path string, m Manifest) error
}

func (o Options) accept(path string, m Manifest) error {
	if o.Accept == nil {
		return nil
	}
	return o.Accept(path, m)
}

// Read returns the manifest of a sealed file or folder after comparing sizes:
// cheap, and blind to flipped bits. Use [Verify] or [Open] before trusting
// the bytes.
func Read(ctx context.Context, path string, o Options) (Manifest, error) {
	path = filepath.Clean(path)
	var m Manifest
	err := patiently(ctx, path, o, func() (err error) {
		if m, _, err = readManifest(path); err != nil {
			return err
		}
		if err = compareSizes(path, m); err != nil {
			return err
		}
		return o.accept(path, m)
	})
	return m, err
}

// Check is [Read] for whoever only asks whether a file or folder is sealed. It
// tries once and lists no folder, so what is not there costs one failed open.
// What is damaged is not sealed. An error is that of a file system that does not
// answer, or of o.Accept; Check has no patience.
func Check(ctx context.Context, path string, o Options) (m Manifest, sealed bool, err error) {
	path = filepath.Clean(path)
	for range staleTries {
		if m, _, err = readManifest(path); err == nil {
			err = compareSizes(path, m)
		}
		if err = misplaced(path, err); !errors.Is(err, syscall.ESTALE) {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged) {
		return Manifest{}, false, ctx.Err()
	}
	if err != nil {
		return Manifest{}, false, fmt.Errorf("reading %q: %w", path, err)
	}
	if err := o.accept(path, m); err != nil {
		return Manifest{}, false, err
	}
	return m, true, ctx.Err()
}

// Verify digests a sealed file or folder and compares it with its manifest.
func Verify(ctx context.Context, path string, o Options) (Manifest, error) {
	path = filepath.Clean(path)
	var m Manifest
	err := patiently(ctx, path, o, func() (err error) {
		if m, _, err = readManifest(path); err != nil {
			return err
		}
		if err = compareSizes(path, m); err != nil { // what has another size need not be read
			return err
		}
		d, err := measure(ctx, path)
		if err != nil {
			return err
		}
		if difference := d.compare(m); difference != "" {
			return damaged(path, difference)
		}
		return o.accept(path, m)
	})
	return m, err
}

// Open returns the bytes of a sealed file. They were digested after they were
// read, so they are the bytes that were sealed whatever happens to the file.
//
// A file for which there is no memory is refused.
func Open(ctx context.Context, path string, o Options) ([]byte, Manifest, error) {
	return openWhole(ctx, path, o, plainfile.Fits)
}

// openWhole is Open. fits refuses a size.
func openWhole(ctx context.Context, path string, o Options, fits func(path string, size int64) error) ([]byte, Manifest, error) {
	path = filepath.Clean(path)
	var m Manifest
	var data []byte
	err := patiently(ctx, path, o, func() (err error) {
		if m, _, err = readManifest(path); err != nil {
			return err
		}
		if m.Kind != KindFile {
			return damaged(path, "it is a sealed folder, expected a file")
		}
		if data, err = readSized(path, m.Bytes, fits); err != nil {
			return err
		}
		if difference := digestBytes(data).compare(m); difference != "" {
			return damaged(path, difference)
		}
		return o.accept(path, m)
	})
	if err != nil {
		return nil, Manifest{}, err
	}
	return data, m, nil
}

// open opens a file or folder of what was sealed at path. A pipe, a socket or a
// device in its place is damage, and nothing to wait for.
func open(name, path string) (*os.File, fs.FileInfo, error) {
	f, info, err := plainfile.OpenAny(name)
	var other *plainfile.KindError
	if errors.As(err, &other) {
		return nil, nil, damaged(path, fmt.Sprintf("found %s at %s, sealed was a file", other.Kind, name))
	}
	return f, info, err
}

// readSized reads a file whose size is known, and one byte more if there is
// one, so that a file that grew is noticed.
func readSized(path string, size int64, fits func(path string, size int64) error) ([]byte, error) {
	f, err := openContent(path, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.folder {
		return nil, damaged(path, "found a folder, sealed was a file")
	}
	if f.size != size {
		return nil, damaged(path, fmt.Sprintf("found %d bytes, sealed were %d", f.size, size))
	}
	if err := fits(path, size); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	n, err := io.ReadFull(f, data)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, damaged(path, fmt.Sprintf("found %d bytes, sealed were %d", n, size))
	}
	return data, err
}

// compareSizes opens what a manifest describes and compares sizes. It opens
// rather than asks for the size of a name: an open revalidates what NFS
// cached, a stat need not.
func compareSizes(path string, m Manifest) error {
	check := func(name string, want int64) error {
		f, err := openContent(name, path)
		if err != nil {
			return err
		}
		defer f.Close()
		if f.folder {
			return damaged(path, fmt.Sprintf("%s is a folder, sealed was a file", name))
		}
		if f.size != want {
			return damaged(path, fmt.Sprintf("%s has %d bytes, sealed were %d", name, f.size, want))
		}
		return nil
	}
	if m.Kind == KindFile {
		return check(path, m.Bytes)
	}
	for _, f := range m.Files {
		if err := check(filepath.Join(path, filepath.FromSlash(f.Name)), f.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// Between tries a patient reader waits firstPause, then twice as long, up to
// longestPause. What looks damaged may be a file whose writer is between two
// steps: it is looked at again for at most damagePatience.
const (
	firstPause     = 20 * time.Millisecond
	longestPause   = time.Second
	damagePatience = 2 * time.Second
	staleTries     = 3 // of a file that the server replaced while we had it open
)

// UsageLateFiles names, in the usage of a manifest, the seconds for which its process had
// waited for files that others had sealed and this node did not see yet.
const UsageLateFiles = "late_file_seconds"

// lateNanoseconds is what [UsageLateFiles] counts, of this process.
var lateNanoseconds atomic.Int64

// patiently calls try until it succeeds, fails for good, or patience ends.
func patiently(ctx context.Context, path string, o Options, try func() error) error {
	start := time.Now()
	stale, late := 0, false
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := misplaced(path, try())
		waited := time.Since(start)
		if err == nil {
			if late {
				lateNanoseconds.Add(int64(waited))
			}
			return nil
		}
		missing := errors.Is(err, fs.ErrNotExist)
		switch {
		case errors.Is(err, syscall.ESTALE) && stale < staleTries:
			stale++
		case (missing || errors.Is(err, syscall.ESTALE)) && waited < o.Visibility:
			late = true
		case errors.Is(err, ErrDamaged) && waited < min(o.Visibility, damagePatience):
		case missing:
			return absent(path, waited, o)
		case errors.Is(err, ErrDamaged):
			return err
		default:
			return fmt.Errorf("reading %q: %w", path, err)
		}
		leave := phase.Enter(phase.Wait)
		select {
		case <-ctx.Done():
			leave()
			return fmt.Errorf("waiting for %q: %w", path, context.Cause(ctx))
		case <-time.After(pause):
			leave()
		}
		// Listing makes an NFS client ask the server about the folder again.
		_, _ = os.ReadDir(filepath.Dir(path))
	}
}

// absent says which half of a sealed file is missing, and what is there.
func absent(path string, waited time.Duration, o Options) error {
	saw := describeFolder(filepath.Dir(path))
	if o.Visibility > 0 {
		saw = fmt.Sprintf("after %s %s", waited.Round(time.Millisecond), saw)
	}
	manifest, _, err := readManifest(path)
	if errors.Is(err, fs.ErrNotExist) {
		return notSealed(path, fmt.Sprintf("there is no manifest %s; %s", filepath.Base(ManifestPath(path)), saw))
	}
	if err != nil {
		return err
	}
	missing := filepath.Base(path)
	for _, f := range manifest.Files {
		if _, err := os.Lstat(filepath.Join(path, filepath.FromSlash(f.Name))); errors.Is(err, fs.ErrNotExist) {
			missing = filepath.Join(missing, f.Name)
			break
		}
	}
	return damaged(path, fmt.Sprintf("its manifest is there, but %s is missing; %s", missing, saw))
}

// describeFolder says what a folder holds, for a message.
func describeFolder(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Sprintf("the folder cannot be listed (%v)", err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	const most = 12
	switch {
	case len(names) == 0:
		return fmt.Sprintf("folder %s is empty", dir)
	case len(names) > most:
		return fmt.Sprintf("folder %s holds %s and %d more", dir, strings.Join(names[:most], ", "), len(names)-most)
	}
	return fmt.Sprintf("folder %s holds %s", dir, strings.Join(names, ", "))
}

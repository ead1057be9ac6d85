package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

const (
	// mendTries bounds how often a writer puts right what a twin undid.
	mendTries = 20
	// mendGrace is how long a writer leaves alone what looks wrong, because
	// its writer may be between two steps.
	mendGrace = 300 * time.Millisecond
)

// link is link(2). Tests put file systems without links in its place.
var link = os.Link

// candidate is finished work that waits for its final name.
type candidate interface {
	// put gives the work its final name, unless something has that name.
	put() (won bool, err error)
	// replace puts the work in the place of whatever has the final name.
	replace() error
	// held reports whether the work is still at hand for replace.
	held() bool
	// placed reports whether what has the final name is the work, and its digest was made
	// by reading it back: then it need not be read a second time.
	placed() bool
}

// publish makes the candidate and its manifest visible at path, or finds that
// a twin did. It returns the manifest that is there in the end.
func publish(path string, c candidate, m Manifest, a Attempt) (Manifest, error) {
	encoded, err := m.encode()
	if err != nil {
		return Manifest{}, exitcode.Bugf("sealing %q: %w", path, err)
	}
	manifest, err := newTempFile(ManifestPath(path), a, encoded)
	if err != nil {
		return Manifest{}, err
	}
	defer manifest.remove()

	waited := false
	for range mendTries {
		there, raw, data, err := look(path, c, m)
		if err != nil {
			return Manifest{}, err
		}
		mine := bytes.Equal(raw, encoded)
		switch {
		case there != nil && a.Guard && there.ContentSHA256 != m.ContentSHA256:
			return Manifest{}, otherContents(path)
		case there != nil:
			return *there, nil
		case raw == nil && data == "":
			_, err = c.put()
		case raw == nil && data == m.SHA256:
			// A former attempt or a twin got this far with the same bytes.
		case !c.held() || !mine && !waited:
			// Somebody else's, perhaps between two steps: leave it a moment.
			time.Sleep(mendGrace)
			waited = true
			continue
		case raw == nil && exists(ManifestPath(path)):
			continue // its writer finished while we looked
		case a.Guard && !mine && !ours(path, raw, data):
			return Manifest{}, otherContents(path)
		default:
			if err = c.replace(); err != nil && m.Kind == KindFile && isFolder(path) {
				return Manifest{}, damaged(path, "found a folder, sealed was a file")
			}
		}
		if err == nil {
			err = syncFolder(filepath.Dir(path))
		}
		if err == nil && !mine {
			err = manifest.putAfter(raw)
		}
		if err == nil {
			err = syncFolder(filepath.Dir(path))
		}
		if err != nil {
			return Manifest{}, fmt.Errorf("sealing %q: %w", path, err)
		}
	}
	return Manifest{}, exitcode.WithHint(exitcode.IOf("sealing %q: other writers keep changing it", path),
		"make sure that no two jobs write this run, then run the same command again")
}

// look reports what has the name path: the manifest when it and the data
// agree, else the raw manifest (nil when there is none) and the digest of the
// data (empty when there is none). Data that has another size than its manifest
// says, or than ours where there is none, is not read: it may be endless.
func look(path string, c candidate, ours Manifest) (agreed *Manifest, raw []byte, data string, err error) {
	bytes := ours.Bytes
	m, raw, errManifest := readManifest(path)
	errManifest = misplaced(path, errManifest)
	if errManifest != nil && !errors.Is(errManifest, fs.ErrNotExist) && !errors.Is(errManifest, ErrDamaged) {
		return nil, nil, "", fmt.Errorf("reading the manifest of %q: %w", path, errManifest)
	}
	if errManifest == nil || errors.Is(errManifest, ErrDamaged) {
		raw = append([]byte{}, raw...) // not nil, also when empty
	}
	if errManifest == nil {
		bytes = m.Bytes
	}
	if otherSize(path, bytes) {
		return nil, raw, unread, nil
	}
	if c.placed() {
		if errManifest == nil && m.Kind == ours.Kind && m.SHA256 == ours.SHA256 {
			agreed = &m
		}
		return agreed, raw, ours.SHA256, nil
	}
	d, err := measure(context.Background(), path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, raw, "", nil
	case errors.Is(err, syscall.ELOOP): // a link to itself
		return nil, raw, unread, nil
	case err != nil:
		return nil, nil, "", fmt.Errorf("reading back %q: %w", path, err)
	}
	if errManifest == nil && d.compare(m) == "" {
		return &m, raw, d.sha256, nil
	}
	return nil, raw, d.sha256, nil
}

// unread stands for the digest of data that is none of ours, without a look at it.
const unread = "unread"

// otherSize reports whether a file, or the files of a folder together, are there
// and have not so many bytes; any number is taken for a negative one.
func otherSize(path string, bytes int64) bool {
	info, err := os.Stat(path)
	if err != nil || bytes < 0 {
		return false
	}
	if !info.IsDir() {
		return info.Mode().IsRegular() && info.Size() != bytes
	}
	var sum int64
	err = walkFiles(path, func(_ string, entry fs.DirEntry) error {
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return err
	})
	return err == nil && sum != bytes
}

// tempFile is a written and synced file under its temporary name.
type tempFile struct {
	path  string // final
	temp  string
	spare string // a second temporary name, for replace
	gone  bool   // the temporary name was renamed away
}

func newTempFile(path string, a Attempt, data []byte) (*tempFile, error) {
	f, temp, err := createTemp(path, a)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(temp)
		return nil, fmt.Errorf("writing %q: %w", path, err)
	}
	return &tempFile{path: path, temp: temp, spare: a.tempPath(path)}, nil
}

// createTemp opens a new temporary file for path, and makes its folder.
func createTemp(path string, a Attempt) (f *os.File, temp string, err error) {
	temp, err = a.takeTemp(path, func(temp string) (err error) {
		f, err = os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		return err
	})
	return f, temp, err
}

// takeTemp makes something under a new temporary name for path, and path's folder.
func (a Attempt) takeTemp(path string, create func(temp string) error) (temp string, err error) {
	if err = makeFolder(filepath.Dir(path)); err == nil {
		temp = a.tempPath(path)
		for err = create(temp); errors.Is(err, fs.ErrExist); err = create(temp) {
			temp = a.tempPath(path) // the other was left by a process that had our id; Sweep takes it
		}
	}
	if err != nil {
		err = fmt.Errorf("creating %q: %w", path, err)
	}
	return temp, err
}

func (t *tempFile) held() bool { return !t.gone }

// placed: the digest is of what was written, so what the file holds is read back.
func (t *tempFile) placed() bool { return false }

// put links the file to its final name. A link never replaces a file, so two
// writers cannot both win. On NFS a repeated request may be answered "exists"
// although the first one succeeded, so identity decides, not the answer.
func (t *tempFile) put() (won bool, err error) {
	err = link(t.temp, t.path)
	if err == nil || sameFile(t.temp, t.path) {
		return true, nil
	}
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if !noLinks(err) {
		return false, err
	}
	// Without links, look and rename: a twin in between is found by the
	// reading back in publish.
	if exists(t.path) {
		return false, nil
	}
	t.gone = true
	return true, os.Rename(t.temp, t.path)
}

// replace renames a second name of the file onto the final one, so that the
// file stays at hand.
func (t *tempFile) replace() error {
	if err := link(t.temp, t.spare); err != nil {
		if !noLinks(err) {
			return err
		}
		t.gone = true
		return os.Rename(t.temp, t.path)
	}
	// Renaming a name of a file onto another name of it does nothing.
	defer os.Remove(t.spare)
	return os.Rename(t.spare, t.path)
}

// putAfter puts the file where there was nothing (raw is nil) or, if its
// bytes are still there, in the place of raw.
func (t *tempFile) putAfter(raw []byte) error {
	if t.gone {
		return nil
	}
	if raw == nil {
		_, err := t.put()
		return err
	}
	now, err := plainfile.Read(t.path, maxManifestBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err := t.put()
		return err
	case err != nil && !errors.Is(err, syscall.ELOOP): // a link to itself holds nothing
		return err
	case bytes.Equal(now, raw):
		return t.replace()
	}
	return nil // another writer fixed it; look again
}

func (t *tempFile) remove() error {
	if t.gone {
		return nil
	}
	t.gone = true
	return os.Remove(t.temp)
}

// exists is for writers that are about to replace something. Readers open.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

func sameFile(a, b string) bool {
	infoA, errA := os.Lstat(a)
	infoB, errB := os.Lstat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// noLinks reports whether a file system refused to link at all.
func noLinks(err error) bool {
	return isAny(err, syscall.EPERM, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EMLINK, syscall.EXDEV)
}

// makeFolder makes a folder and what is missing above it, and makes the name of
// each durable: else a power cut takes what is sealed inside with it. No stranger's
// link leads there.
func makeFolder(path string) error {
	if err := plainfile.CheckLinks(path); err != nil {
		return err
	}
	return makeFolders(path)
}

func makeFolders(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := makeFolders(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o777); err != nil {
		info, errStat := os.Stat(path)
		switch {
		case errStat != nil:
			return err
		case !info.IsDir():
			return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
		}
		return nil // another process was faster
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes new names in a folder durable, as far as the file system
// can: some shared ones refuse to sync a folder.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	if isAny(err, syscall.EINVAL, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EBADF, syscall.EACCES, syscall.EPERM) {
		return nil
	}
	return err
}

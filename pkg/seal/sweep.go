package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// SweepOptions says what is known about the writers of temporary files.
type SweepOptions struct {
	// LiveJobs holds the Slurm job ids that are queued or running; nil when
	// that is not known. With it, temporary files of all other jobs go.
	LiveJobs map[string]bool
	// MinAge is how old a temporary file must be when nothing is known about
	// its writer. Clocks of nodes and file servers differ: use an hour.
	MinAge time.Duration
}

// Sweep removes temporary files and folders that killed writers left in dir,
// and returns their names. It never removes those of a job that is live, nor
// those of a process of this host that is running. The journal of an output
// that is sealed goes too: its writer was killed between the two. A missing dir
// is empty.
func Sweep(dir string, o SweepOptions) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sweeping %q: %w", dir, err)
	}
	host, _ := os.Hostname()
	for _, entry := range entries {
		if output, ok := strings.CutSuffix(entry.Name(), journalSuffix); ok && exists(ManifestPath(filepath.Join(dir, output))) {
			if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return removed, fmt.Errorf("sweeping %q: %w", dir, err)
			}
			removed = append(removed, entry.Name())
			continue
		}
		t, ok := parseTemp(entry.Name())
		if !ok {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // its writer has just finished
		}
		if err != nil {
			return removed, fmt.Errorf("sweeping %q: %w", dir, err)
		}
		if !o.leftover(t, host, time.Since(info.ModTime())) {
			continue
		}
		if err := removeAll(filepath.Join(dir, entry.Name())); err != nil {
			return removed, fmt.Errorf("sweeping %q: %w", dir, err)
		}
		removed = append(removed, entry.Name())
	}
	return removed, nil
}

// leftover reports whether nobody writes a temporary file any more.
func (o SweepOptions) leftover(t temp, host string, age time.Duration) bool {
	switch {
	case o.LiveJobs[t.job]:
		return false
	case t.job == localJob(host):
		return !Running(t.pid)
	case o.LiveJobs != nil && !strings.HasPrefix(t.job, "local-"):
		return true
	}
	return age >= o.MinAge
}

// Running reports whether a process of this host has the id and is more than
// an exit code that nobody has asked for: in a container whose first process
// does not reap, killed processes stay as zombies for ever.
func Running(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) || !exists("/proc/self/stat")
	}
	// PID (COMMAND) STATE ...; the command may hold anything.
	state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(state) == 0 || state[0] != 'Z' && state[0] != 'X'
}

// List returns the names in dir that have a manifest, sorted, whether or not
// it matches: NAME.json beside NAME is always its manifest. In place of a pack it
// lists what the pack holds. A missing dir is empty.
func List(dir string) ([]string, error) {
	sealed, _, err := scan(dir)
	var names []string
	for _, name := range sealed {
		if !IsPack(name) {
			names = append(names, name)
			continue
		}
		packed, err := Packed(context.Background(), filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		for _, path := range packed {
			names = append(names, filepath.Base(path))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// Orphans returns the names of the files in dir that have no manifest and
// that nobody is about to seal, sorted: unfinished work, the marks of
// [Claim], and what people put there. Folders are never orphans.
func Orphans(dir string) ([]string, error) {
	_, orphans, err := scan(dir)
	return orphans, err
}

func scan(dir string) (sealed, orphans []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listing %q: %w", dir, err)
	}
	there := make(map[string]bool)
	writing := make(map[string]bool) // names that a temporary file is to become
	for _, entry := range entries {
		if t, ok := parseTemp(entry.Name()); ok {
			writing[t.name] = true
			continue
		}
		there[entry.Name()] = true
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		if there[name+".json"] {
			sealed = append(sealed, name)
			continue
		}
		if entry.IsDir() || writing[name] || writing[name+".json"] {
			continue
		}
		if base, ok := strings.CutSuffix(name, prunedSuffix); ok {
			if _, err := ReadPruned(filepath.Join(dir, base)); err == nil {
				continue // of what was removed to save room
			}
		}
		if base, ok := strings.CutSuffix(name, ".json"); ok {
			if there[base] {
				continue // a manifest
			}
			if _, _, err := readManifest(filepath.Join(dir, base)); err == nil {
				sealed = append(sealed, base) // a manifest whose data is missing
				continue
			}
		}
		orphans = append(orphans, name)
	}
	return sealed, orphans, nil
}

// Remove unseals and removes a file or folder: the manifest first, so that a
// kill in between leaves unfinished work and not damage. It does nothing when
// neither is there.
func Remove(path string) error {
	path = filepath.Clean(path)
	if err := plainfile.CheckLinks(filepath.Dir(path)); err != nil {
		return err
	}
	err := os.Remove(ManifestPath(path))
	sealed := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %q: %w", path, err)
	}
	if sealed {
		if err := syncFolder(filepath.Dir(path)); err != nil {
			return fmt.Errorf("removing %q: %w", path, err)
		}
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("removing %q: %w", path, err)
	case info.IsDir() && !sealed:
		return exitcode.Bugf("removing %q: a folder without a manifest may hold unrelated files", path)
	}
	if err := removeAll(path); err != nil {
		return fmt.Errorf("removing %q: %w", path, err)
	}
	return nil
}

// removeAll removes a file, or a folder with what is in it. On NFS a file that a process
// of this host has open gets another name, .nfs0001 for one, until that is closed. Its
// folder stays with it, and counts as removed.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !isAny(err, syscall.EBUSY, syscall.ENOTEMPTY) {
		return err
	}
	return filepath.WalkDir(path, func(_ string, entry fs.DirEntry, errWalk error) error {
		switch {
		case errors.Is(errWalk, fs.ErrNotExist): // removed meanwhile
			return nil
		case errWalk == nil && !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".nfs"):
			return err
		}
		return errWalk
	})
}

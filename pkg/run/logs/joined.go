package logs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// The logs of an array's tasks can be joined into one file, NODE.log: before each stands
// a line with its name, its size and when it was last written to, and after it a line
// break. So one file can be searched as many were, and each is found again to the byte.

// part is one log in a joined file.
type part struct {
	name     string // of the file that it was
	modified time.Time
	offset   int64
	size     int64
}

const headerForm = "==> %s, %d bytes, %s <==\n"

var headerPattern = lazyregexp.New(`^==> ([a-z0-9.-]+\.log), (\d+) bytes, (\S+) <==\n$`)

// mostJoined bounds a joined file: more than this is better left in many.
const mostJoined = 256 << 20

// joined is where the logs of a node are joined.
func joined(d graph.Dir, n graph.Node) string { return filepath.Join(d.Logs(), n.String()+".log") }

// joinedNode is the node whose logs a file of this name joins.
func joinedNode(file string) (graph.Node, bool) {
	name, isLog := strings.CutSuffix(file, ".log")
	t, _, ok := graph.ParseTask(name + "-00000")
	return t.Node, isLog && ok
}

// parts lists the logs in a joined file.
func parts(path string) ([]part, error) {
	f, size, err := plainfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []part
	for at := int64(0); at < size; {
		// A header is shorter than the reader's buffer.
		line, err := bufio.NewReader(io.NewSectionReader(f, at, min(size-at, 512))).ReadString('\n')
		found := headerPattern().FindStringSubmatch(line)
		if err != nil || found == nil {
			return all, exitcode.Dataf("%q: no log begins at byte %d: somebody edited it", path, at)
		}
		p := part{name: found[1], offset: at + int64(len(line))}
		p.size, err = strconv.ParseInt(found[2], 10, 64)
		if err == nil {
			p.modified, err = time.Parse(time.RFC3339, found[3])
		}
		if err != nil || p.size > size-p.offset {
			return all, exitcode.Dataf("%q: the log that begins at byte %d does not end: the file was cut short", path, at)
		}
		all, at = append(all, p), p.offset+p.size+1
	}
	return all, nil
}

// Loose lists the logs that are not joined, by the node of their tasks.
func Loose(d graph.Dir) (map[graph.Node][]string, error) {
	entries, err := os.ReadDir(d.Logs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	loose := map[graph.Node][]string{}
	for _, entry := range entries {
		name, isLog := strings.CutSuffix(entry.Name(), ".log")
		if t, _, isTask := graph.ParseTask(name); isLog && isTask {
			loose[t.Node] = append(loose[t.Node], entry.Name())
		}
	}
	return loose, err
}

// Join puts logs of a node's tasks into one file and removes them; those that are joined
// already stay in it. It returns how many there are fewer, or in a dry run would be. A kill in
// between leaves logs twice, and the next Join removes them.
func Join(d graph.Dir, n graph.Node, names []string, dry bool, a seal.Attempt) (fewer int, err error) {
	path := joined(d, n)
	before, err := parts(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fewer, err
	}
	there := err == nil
	content := map[string][]byte{} // a header and a log each, by name
	var whole []byte
	if there {
		if whole, err = plainfile.ReadWhole(path); err != nil {
			return fewer, err
		}
	}
	for _, p := range before {
		content[p.name] = fmt.Appendf(nil, headerForm, p.name, p.size, p.modified.Format(time.RFC3339))
		content[p.name] = append(append(content[p.name], whole[p.offset:p.offset+p.size]...), '\n')
	}
	total := len(whole)
	for _, name := range names {
		from := filepath.Join(d.Logs(), name)
		info, err := os.Stat(from)
		if errors.Is(err, fs.ErrNotExist) {
			return fewer, nil // another process joins them
		}
		if err != nil {
			return fewer, fmt.Errorf("joining logs: %w", err)
		}
		if total += int(info.Size()); total > mostJoined {
			return fewer, nil
		}
		if dry {
			continue
		}
		text, err := plainfile.ReadWhole(from)
		if err != nil {
			return fewer, fmt.Errorf("joining logs: %w", err)
		}
		content[name] = fmt.Appendf(nil, headerForm, name, len(text), info.ModTime().UTC().Format(time.RFC3339))
		content[name] = append(append(content[name], text...), '\n')
	}
	joins := len(names)
	if !there {
		joins--
	}
	if dry {
		return joins, nil
	}
	whole = nil
	for _, name := range slices.Sorted(maps.Keys(content)) {
		whole = append(whole, content[name]...)
	}
	if err := seal.Replace(path, whole, a); err != nil {
		return fewer, err
	}
	for _, name := range names {
		if err := os.Remove(filepath.Join(d.Logs(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fewer, fmt.Errorf("joining logs: %w", err)
		}
	}
	return joins, nil
}

// Split puts every joined log back into a file of its own, and returns how many files
// there are more.
func Split(d graph.Dir, a seal.Attempt) (more int, err error) {
	entries, err := os.ReadDir(d.Logs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return more, err
	}
	for _, entry := range entries {
		if _, is := joinedNode(entry.Name()); !is {
			continue
		}
		path := filepath.Join(d.Logs(), entry.Name())
		all, err := parts(path)
		if err != nil {
			return more, err
		}
		whole, err := plainfile.ReadWhole(path)
		if err != nil {
			return more, err
		}
		for _, p := range all {
			to := filepath.Join(d.Logs(), p.name)
			if err := errors.Join(seal.Replace(to, whole[p.offset:p.offset+p.size], a), os.Chtimes(to, time.Time{}, p.modified)); err != nil {
				return more, err
			}
		}
		if err := os.Remove(path); err != nil {
			return more, err
		}
		more += len(all) - 1
	}
	return more, nil
}

// readJoined adds the logs in a joined file that a filter chooses, but for those that lie
// by themselves too.
func readJoined(d graph.Dir, file string, f Filter, entries map[string]*Entry) error {
	path := filepath.Join(d.Logs(), file)
	all, err := parts(path)
	if err != nil {
		return err
	}
	for _, p := range all {
		name := strings.TrimSuffix(p.name, ".log")
		t, attempt, isTask := graph.ParseTask(name)
		if !isTask || !f.Takes(t) || entries[name] != nil {
			continue
		}
		entries[name] = &Entry{Task: t.String(), Attempt: attempt, Log: d.Rel(path), End: p.modified, task: t, part: p}
	}
	return nil
}

// Tail is the last lines of the attempt's log.
func (e Entry) Tail(d graph.Dir, lines int) ([]string, error) {
	if e.part.name == "" {
		text, _, err := Tail(d.Join(e.Log), lines)
		return text, err
	}
	f, _, err := plainfile.Open(d.Join(e.Log))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return tail(io.NewSectionReader(f, e.part.offset, e.part.size), e.part.size, lines)
}

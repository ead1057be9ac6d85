package seal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// A journal lies beside an output that takes long to make, row by row, and
// keeps the rows that are finished: whoever makes the output after a kill does
// not make them again. Each line is a checksum and a JSON object; a line that a
// kill or another writer tore is passed over. A journal belongs to one key, the
// digest of what the rows are made from: lines of other keys mean nothing. It
// goes when the output is sealed.
type Journal struct {
	path string
	key  string
	mu   sync.Mutex
	file *os.File
}

// journalLine is one line.
type journalLine struct {
	Key   string          `json:"key"`
	Index int             `json:"index"`
	Row   json.RawMessage `json:"row"`
}

// maxJournalLine bounds a line that is read, in bytes.
const maxJournalLine = 64 << 20

const journalSuffix = ".journal"

// JournalPath is where the journal of an output lies.
func JournalPath(output string) string { return filepath.Clean(output) + journalSuffix }

// OpenJournal opens the journal of an output, and returns the rows that it has
// under the key, by index. The folder of the output is made when it is missing.
func OpenJournal(output, key string) (*Journal, map[int]json.RawMessage, error) {
	path := JournalPath(output)
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return nil, nil, fmt.Errorf("opening the journal %q: %w", path, err)
	}
	rows, err := readJournal(path, key)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the journal %q: %w", path, err)
	}
	file, err := plainfile.Create(path, os.O_APPEND)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the journal %q: %w", path, err)
	}
	// What a kill has torn ends here, so that it spoils no line of ours.
	if _, err := file.WriteString("\n"); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("writing the journal %q: %w", path, err), file.Close())
	}
	return &Journal{path: path, key: key, file: file}, rows, nil
}

func readJournal(path, key string) (map[int]json.RawMessage, error) {
	rows := map[int]json.RawMessage{}
	file, _, err := plainfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return rows, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if read, ok := parseJournalLine(line); ok && read.Key == key {
			rows[read.Index] = read.Row
		}
		if err != nil {
			return rows, nil
		}
	}
}

// parseJournalLine reads a whole line; ok is false for any other.
func parseJournalLine(line string) (read journalLine, ok bool) {
	sum, text, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	want, err := strconv.ParseUint(sum, 16, 32)
	if !found || err != nil || len(text) > maxJournalLine || crc32.ChecksumIEEE([]byte(text)) != uint32(want) {
		return read, false
	}
	return read, json.Unmarshal([]byte(text), &read) == nil && read.Index >= 0
}

// Append keeps a finished row. It is on the disk when Append returns. It may be
// called from several goroutines.
func (j *Journal) Append(index int, row any) error {
	encoded, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("writing the journal %q: %w", j.path, err)
	}
	text, err := json.Marshal(journalLine{Key: j.key, Index: index, Row: encoded})
	if err != nil {
		return fmt.Errorf("writing the journal %q: %w", j.path, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := fmt.Fprintf(j.file, "%08x %s\n", crc32.ChecksumIEEE(text), text); err != nil {
		return fmt.Errorf("writing the journal %q: %w", j.path, err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("writing the journal %q: %w", j.path, err)
	}
	return nil
}

// Close leaves the journal for whoever comes next.
func (j *Journal) Close() error { return j.file.Close() }

// Remove ends a journal whose output is sealed.
func (j *Journal) Remove() error {
	err := os.Remove(j.path)
	if errors.Is(err, fs.ErrNotExist) { // a twin's output was sealed first
		return nil
	}
	return err
}

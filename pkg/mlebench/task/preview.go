package task

import (
	"bufio"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/mlebench/frame"
	"github.com/lathe-rl/lathe/pkg/plainfile"
)

// What a preview shows at most, so that it stays a preview.
const (
	previewEntries = 10  // of a folder
	previewColumns = 30  // of a table
	previewCell    = 40  // characters of an example
	previewName    = 200 // characters of a column's name
	previewTables  = 8   // tables and JSON files that are looked into
	previewDepth   = 3   // folders below the public one
	previewKeys    = 30  // of an object of JSON

	maxPreviewed = 4 << 20 // bytes that are read of a file above maxDigested
)

// lookAtPublic makes the preview of the public folder and the digest of what is
// in it, or takes what was kept of both. A link out of the folder, or what is neither file
// nor folder, is an error: no program could read it.
func (t *Task) lookAtPublic(now time.Time) error {
	files, err := t.listPublic()
	if err != nil {
		return fmt.Errorf("public: %w", err)
	}
	state, changed := state(files)
	p, found := t.kept(state)
	if !found {
		if p, err = t.readPublic(files); err != nil {
			return fmt.Errorf("public: %w", err)
		}
		if p.State = state; p.Bytes >= worthKeeping && now.Sub(changed) > settled {
			t.keep(p)
		}
	}
	t.Preview, t.PublicBytes = p.Preview, p.Bytes
	t.Inputs = append(t.Inputs, Input{t.PublicDir, p.SHA256})
	return nil
}

// listPublic lists the files of the public folder, sorted.
func (t *Task) listPublic() (files []publicFile, err error) {
	err = filepath.WalkDir(t.PublicDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(t.PublicDir, path)
		if !entry.Type().IsRegular() {
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				return err
			}
			if inside, err := filepath.Rel(t.PublicDir, real); err != nil || !filepath.IsLocal(inside) {
				return exitcode.Dataf("%q is a link out of the folder", name)
			}
		}
		info, err := os.Stat(path)
		files = append(files, publicFile{name, info})
		return err
	})
	return files, err
}

// readPublic reads the files of the public folder.
func (t *Task) readPublic(files []publicFile) (p public, err error) {
	var b strings.Builder
	if err := tree(&b, t.PublicDir, "", 0); err != nil {
		return p, err
	}
	sum := sha256.New()
	looked := 0
	for _, file := range files {
		f, size, err := plainfile.Open(filepath.Join(t.PublicDir, file.name))
		if err != nil {
			return p, err
		}
		p.Bytes += size
		fmt.Fprintf(sum, "%q %d\n", file.name, size)
		if size <= maxDigested {
			_, err = io.Copy(sum, f)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return p, fmt.Errorf("reading %q: %w", file.name, err)
		}
		describe := describers[strings.ToLower(filepath.Ext(file.name))]
		if describe == nil || looked == previewTables {
			continue
		}
		looked++
		if err := t.describe(&b, file.name, describe); err != nil {
			return p, err
		}
	}
	p.SHA256 = hex.EncodeToString(sum.Sum(nil))
	p.Preview = strings.TrimRight(b.String(), "\n")
	return p, nil
}

// tree lists a folder, files before folders, each sorted.
func tree(b *strings.Builder, folder, indent string, depth int) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	sort.SliceStable(entries, func(i, j int) bool { return !entries[i].IsDir() && entries[j].IsDir() })
	for i, entry := range entries {
		if i == previewEntries {
			fmt.Fprintf(b, "%s... and %d more\n", indent, len(entries)-i)
			break
		}
		if entry.IsDir() {
			fmt.Fprintf(b, "%s%s/\n", indent, entry.Name())
			if depth < previewDepth {
				if err := tree(b, filepath.Join(folder, entry.Name()), indent+"    ", depth+1); err != nil {
					return err
				}
			}
			continue
		}
		info, err := os.Stat(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "%s%s (%s)\n", indent, entry.Name(), bytes(info.Size()))
	}
	return nil
}

func bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f kB", float64(n)/(1<<10))
	}
	return strconv.FormatInt(n, 10) + " B"
}

// column is what is seen of a table's column.
type column struct {
	numeric, whole bool
	filled, empty  int
	least, most    float64
	values         map[string]bool // at most a few
	example        string
}

// describers say what files hold, by their extension. cut says that only the beginning of
// the file is read.
var describers = map[string]func(b *strings.Builder, r io.Reader, cut bool){
	".csv": describeTable, ".tsv": describeTabs, ".json": describeJSON, ".jsonl": describeJSON, ".ndjson": describeJSON,
}

// describe says what a file holds. Of one larger than [maxDigested] so much is read.
func (t *Task) describe(b *strings.Builder, name string, as func(*strings.Builder, io.Reader, bool)) error {
	f, size, err := plainfile.Open(filepath.Join(t.PublicDir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(b, "\n%s:", name)
	if size > maxDigested {
		fmt.Fprintf(b, " %s, of which the first %s are described:", bytes(size), bytes(maxPreviewed))
	}
	as(b, io.LimitReader(f, map[bool]int64{true: maxPreviewed, false: size}[size > maxDigested]), size > maxDigested)
	return nil
}

func describeTable(b *strings.Builder, r io.Reader, cut bool) { table(b, r, ',', cut) }

func describeTabs(b *strings.Builder, r io.Reader, cut bool) { table(b, r, '\t', cut) }

// table says what a table holds. A file that is no table by the rules of CSV is left to
// the program.
func table(b *strings.Builder, from io.Reader, comma rune, cut bool) {
	start := bufio.NewReader(from)
	if mark, _ := start.Peek(3); string(mark) == "\ufeff" {
		_, _ = start.Discard(3) // they are there
	}
	r := csv.NewReader(start)
	r.Comma, r.ReuseRecord, r.FieldsPerRecord = comma, true, -1
	header, err := r.Read()
	if err != nil {
		b.WriteString(" cannot be read as a table\n")
		return
	}
	names, columns := make([]string, len(header)), make([]column, len(header))
	for i, name := range header {
		names[i] = strings.ToValidUTF8(name, "?")
		columns[i] = column{numeric: true, whole: true, values: map[string]bool{}}
	}
	rows := 0
	var last []string // of a part of a file the last row may be cut, and does not count
	for {
		record, err := r.Read()
		if err != nil && (err == io.EOF || cut && rows > 0) {
			break
		}
		if err != nil {
			b.WriteString(" cannot be read as a table\n")
			return
		}
		if !cut {
			last = record
		}
		for i := range min(len(last), len(columns)) {
			columns[i].add(last[i])
		}
		if rows++; cut {
			last = slices.Clone(record)
		}
	}
	if cut && rows == 0 { // its first line has no end
		b.WriteString(" cannot be read as a table\n")
		return
	}
	if cut {
		rows--
	}
	fmt.Fprintf(b, " %d rows, %d columns\n", rows, len(names))
	for i, c := range columns[:min(len(columns), previewColumns)] {
		fmt.Fprintf(b, "  %s: %s\n", clip(names[i], previewName), c)
	}
	if more := len(columns) - previewColumns; more > 0 {
		fmt.Fprintf(b, "  ... and %d more columns\n", more)
	}
}

func (c *column) add(cell string) {
	if frame.IsMissing(cell) {
		c.empty++
		return
	}
	c.filled++
	if c.example == "" {
		c.example = strings.ToValidUTF8(cell, "?")
	}
	if len(c.values) <= 12 {
		c.values[strings.Clone(cell)] = true // the record is used again
	}
	if !c.numeric {
		return
	}
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil || strings.ContainsAny(cell, "xX_") { // 3_0_1 and 0x1 are numbers of Go alone
		c.numeric = false
		return
	}
	if c.filled == 1 {
		c.least, c.most = v, v
	}
	c.least, c.most = min(c.least, v), max(c.most, v)
	c.whole = c.whole && v == float64(int64(v))
}

func (c column) String() string {
	var s string
	switch {
	case c.filled == 0:
		return "empty"
	case c.numeric && c.whole:
		s = fmt.Sprintf("whole numbers, %.0f to %.0f", c.least, c.most)
	case c.numeric:
		s = fmt.Sprintf("numbers, %.4g to %.4g", c.least, c.most)
	case len(c.values) <= 12:
		values := make([]string, 0, len(c.values))
		for v := range c.values {
			values = append(values, strings.ToValidUTF8(v, "?"))
		}
		sort.Strings(values)
		s = "one of " + clip(strings.Join(values, ", "), 4*previewCell)
	default:
		s = fmt.Sprintf("text, such as %q", clip(c.example, previewCell))
	}
	if c.empty > 0 {
		s += fmt.Sprintf("; %d empty", c.empty)
	}
	return s
}

// clip shortens a text to so many characters.
func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

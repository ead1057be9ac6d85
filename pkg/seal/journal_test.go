package seal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

func openJournal(t *testing.T, output, key string) (*Journal, map[int]string) {
	t.Helper()
	j, rows := must.Get2(OpenJournal(output, key))(t)
	found := map[int]string{}
	for index, row := range rows {
		found[index] = string(row)
	}
	return j, found
}

// TestJournal: what was appended is there after a kill; a torn line is not, and
// spoils none after it; rows made from other inputs do not count.
func TestJournal(t *testing.T) {
	t.Parallel()
	output := filepath.Join(t.TempDir(), "score", "00000.parquet")
	j, rows := openJournal(t, output, "a")
	if len(rows) != 0 {
		t.Errorf("a new journal has %v", rows)
	}
	for index, row := range []string{"x", "y"} {
		must.Do(t, j.Append(index, row))
	}
	must.Do(t, j.Close())
	content := must.Get(os.ReadFile(JournalPath(output)))(t)
	for cut := range content { // a kill at any byte
		must.Do(t, os.WriteFile(JournalPath(output), content[:cut], 0o600))
		j, before := openJournal(t, output, "a")
		must.Do(t, j.Append(7, "z"))
		must.Do(t, j.Close())
		j, after := openJournal(t, output, "a")
		before[7] = `"z"`
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("cut at byte %d (-want +got):\n%s", cut, diff)
		}
		must.Do(t, j.Close())
	}
	must.Do(t, os.WriteFile(JournalPath(output), content, 0o600))
	j, rows = openJournal(t, output, "a")
	if diff := cmp.Diff(map[int]string{0: `"x"`, 1: `"y"`}, rows); diff != "" {
		t.Errorf("after all (-want +got):\n%s", diff)
	}
	must.Do(t, j.Remove())
	must.Do(t, j.Remove()) // a twin has removed it
	other, rows := openJournal(t, output, "b")
	if len(rows) != 0 {
		t.Errorf("a journal that was removed has %v", rows)
	}
	must.Do(t, other.Append(0, "x"))
	if _, rows = openJournal(t, output, "a"); len(rows) != 0 {
		t.Errorf("rows of other inputs count: %v", rows)
	}
}

// FuzzJournalLine: no line ends the reader.
func FuzzJournalLine(f *testing.F) {
	f.Add(`00000000 {}`)
	f.Add("a2 b")
	f.Fuzz(func(t *testing.T, line string) {
		if read, ok := parseJournalLine(line); ok && read.Index < 0 {
			t.Errorf("%q is row %d", line, read.Index)
		}
	})
}

package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// entries makes n entries as a long run leaves them: 256 groups of 8 responses
// an iteration, half of them replaced since. graded scores are all different;
// others are those of right and wrong answers.
func entries(n int, graded bool) []Entry {
	random := rand.New(rand.NewPCG(1, 2))
	var rows []Entry
	for i := 0; len(rows) < n; i++ {
		iteration, row := 1+i/256, i%256
		parent, task := fmt.Sprintf("i%06d-%06d", iteration, row), fmt.Sprintf("train-%06d", random.IntN(12000))
		share := float64(random.IntN(9)) / 8
		potential := share * (1 - share)
		if graded {
			potential = random.Float64() / 4
		}
		for sample := range 8 {
			base := float64(random.IntN(2))
			if graded {
				base = random.Float64()
			}
			if random.IntN(2) == 0 {
				continue
			}
			rows = append(rows, Entry{
				EntryID: fmt.Sprintf("%s/%d/0/2", parent, sample), TaskID: task, Kind: string(KindImprove), ParentID: parent,
				Depth: int32(1 + random.IntN(5)), Turn: 1, BaseScore: base, Potential: potential,
				Ref: Ref{Iteration: int32(iteration), Row: int32(row), Sample: int32(sample), Messages: 2},
			})
			if random.IntN(20) == 0 {
				rows[len(rows)-1].LastSampled, rows[len(rows)-1].Visits = int32(iteration+random.IntN(100)), 1
			}
		}
	}
	return rows[:n]
}

// An entry takes well under 60 bytes, which no conversation would: about 7
// where answers are right or wrong, 20 where every score is another.
func TestBytesOfAnEntry(t *testing.T) {
	t.Parallel()
	for _, graded := range []bool{false, true} {
		rows := entries(100_000, graded)
		if perEntry := float64(len(encode(t, rows, nil))) / float64(len(rows)); perEntry > 30 {
			t.Errorf("graded %v: %.1f bytes an entry", graded, perEntry)
		}
	}
}

func BenchmarkEntries(b *testing.B) {
	rows := entries(1_000_000, true)
	data := encode(b, rows, nil)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			encode(b, rows, nil)
		}
		b.ReportMetric(float64(len(data))/float64(len(rows)), "bytes/entry")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			must.Get(openedRows(data))(b)
		}
	})
}

// openedRows decodes a table as [Read] does.
func openedRows(data []byte) ([]Entry, error) {
	t, err := openTable[Entry](data, false)
	if err != nil {
		return nil, err
	}
	return t.all(t.file.NumRows())
}

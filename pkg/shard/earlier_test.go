package shard

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/seal"
)

func plannedRows(n int) (rows []Instance) {
	for i := range n {
		rows = append(rows, Instance{
			InstanceID: fmt.Sprintf("i000001-%06d", i), TaskID: "sum/1", Env: "math", Kind: string(KindInitial), GroupID: fmt.Sprint("g", i),
			Messages: []Message{{Role: "user", Content: fmt.Sprint("1+", i, "=")}}, BaseScore: float64(i) / 3, Origin: string(OriginBase),
			Probability: .25, SelectedBy: "base", Seed: 7, Iteration: 1,
		})
	}
	return rows
}

// What the version of Lathe before partner_id (6b2911b9~1) gave no and three of plannedRows.
const (
	emptyPlan   = "d826e9679bdba0259d7537d9859a5e964b1a28a3150406e97d59f74141d34a54"
	planOfThree = "f2bac1163dd182da2cc58df1b955fcdd0d50c57f85992543211e3649190f221b"
)

// TestEarlierDigests: instance/v2.1 had no partner_id.
func TestEarlierDigests(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: emptyPlan, 3: planOfThree} {
		if got := must.Get(EarlierDigests(plannedRows(n)))(t); !slices.Equal(got, []string{want}) {
			t.Errorf("%d rows: %q, want %q", n, got, want)
		}
	}
	rows := plannedRows(3)
	rows[1].PartnerID = "another"
	if got := must.Get(EarlierDigests(rows))(t); len(got) != 0 {
		t.Errorf("rows of a plan that v2.1 could not have had the digests %q", got)
	}
	if got := must.Get(EarlierDigests([]Metric{{Name: "x"}}))(t); len(got) != 0 {
		t.Errorf("a table that never changed had the digests %q", got)
	}
}

// grown is a table to which columns were added twice; one column is no content.
type grown struct {
	Name   string  `parquet:"name"`
	Second int32   `parquet:"second" lathe:"since=grown/1"`
	Took   float64 `parquet:"took" lathe:"volatile"`
	Third  string  `parquet:"third" lathe:"since=grown/2"`
}

func (grown) Schema() seal.Schema { return seal.Schema{Name: "grown", Major: 1, Minor: 2} }

type grownOnce struct {
	Name   string  `parquet:"name"`
	Second int32   `parquet:"second"`
	Took   float64 `parquet:"took" lathe:"volatile"`
}

func (grownOnce) Schema() seal.Schema { return seal.Schema{Name: "grown", Major: 1, Minor: 1} }

type ungrown struct {
	Name string  `parquet:"name"`
	Took float64 `parquet:"took" lathe:"volatile"`
}

func (ungrown) Schema() seal.Schema { return seal.Schema{Name: "grown", Major: 1} }

func TestEarlierDigestsOfValues(t *testing.T) {
	t.Parallel()
	once, _ := ContentDigest([]grownOnce{{"a", 0, 5}, {"b", 2, 6}})
	before, _ := ContentDigest([]ungrown{{"a", 5}, {"b", 6}})
	onceEmpty, _ := ContentDigest([]grownOnce{{"a", 0, 5}, {"b", 0, 6}})
	for _, c := range []struct {
		what string
		rows []grown
		want []string
	}{
		{"nothing added is used", []grown{{"a", 0, 1, ""}, {"b", 0, 2, ""}}, []string{onceEmpty, before}},
		{"what was added first is", []grown{{"a", 0, 1, ""}, {"b", 2, 2, ""}}, []string{once}},
		{"what was added last is", []grown{{"a", 0, 1, ""}, {"b", 0, 2, "c"}}, nil},
	} {
		if got := must.Get(EarlierDigests(c.rows))(t); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestHadContent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plan.parquet")
	had := func(digest string) bool {
		return must.Get(HadContent(t.Context(), path, digest, seal.Options{}))(t)
	}
	if had(planOfThree) {
		t.Error("a plan that is not there had content")
	}
	must.Get(Write(path, plannedRows(3), nil, seal.Attempt{}, seal.Manifest{}))(t)
	if !had(planOfThree) || had(emptyPlan) {
		t.Error("the digest of v2.1 is not that of the plan")
	}
}

// TestSince: a column that is added to a table says in which of its minor versions. The numbers
// are of the columns, those in structs included, that were there before that was on record.
func TestSince(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		table Row
		want  int
	}{{Instance{}, 19}, {Rollout{}, 26}, {Score{}, 36}, {LedgerRow{}, 9}, {Metric{}, 5}, {EvaluationRow{}, 30}, {TaskRow{}, 11}} {
		named, unrecorded := c.table.Schema(), 0
		var count func(row reflect.Type)
		count = func(row reflect.Type) {
			for row.Kind() == reflect.Slice {
				row = row.Elem()
			}
			if row.Kind() != reflect.Struct {
				return
			}
			for _, c := range columnsOf(row) {
				if minor, recorded := c.since[named.Name]; !recorded {
					unrecorded++
				} else if minor < 1 || minor > named.Minor {
					t.Errorf("%s of %s was added in minor version %d", c.name, named, minor)
				}
				count(c.typ)
			}
		}
		if count(reflect.TypeOf(c.table)); unrecorded != c.want {
			t.Errorf("%d columns of %s say nothing of when they were added, want %d: write lathe:\"since=%s/MINOR\" to a new one", unrecorded, named, c.want, named.Name)
		}
	}
}

// What the version before a turn's generate_seconds (220fdddc~1) gave the rows below.
const earlierScores = "6b54a632596fc5488d1f02d274530ecce9985d75c92df6edde0a5df0cbf24c47"

// TestEarlierScores: score/v2.3 added generate_seconds to the turns of a score.
func TestEarlierScores(t *testing.T) {
	t.Parallel()
	rows := []Score{{InstanceID: "i", Turns: []TurnScore{{Outcome: "ok"}, {Outcome: "wrong", ExecuteSeconds: 2}}}, {InstanceID: "j"}}
	if got := must.Get(EarlierDigests(rows))(t); !slices.Equal(got, []string{earlierScores}) {
		t.Errorf("%q, want %q", got, earlierScores)
	}
	rows[0].Turns[1].GenerateSeconds = 1
	if got := must.Get(EarlierDigests(rows))(t); len(got) != 0 {
		t.Errorf("scores that v2.2 could not have had the digests %q", got)
	}
}

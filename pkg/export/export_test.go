package export

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/measure"
)

func number(x float64) *float64 { return &x }

// summary has two finished iterations, one that goes on, and two evaluated versions.
func summary() measure.Summary {
	return measure.Summary{
		RunID: "r-1", Created: time.Unix(1_700_000_000, 0), IterationsDone: 2,
		Series: []measure.Iteration{
			{Iteration: 1, RewardMean: number(0.25), Kinds: map[string]int{"improve": 3, "initial": 5}, WallSeconds: number(10)},
			{Iteration: 2, RewardMean: number(0.5), ReferenceReplaced: true, WallSeconds: number(2.5)},
			{Iteration: 3, RewardMean: number(0.75)},
		},
		AccuracyByVersion: []measure.Version{{Version: 0, Accuracy: number(0.125), AccuracyByStep: []float64{0.125, 0.5}}, {Version: 2, Accuracy: number(1)}},
		AccuracyBySet:     []measure.SetAccuracy{{Set: "hard", Versions: []measure.Version{{Version: 2, Accuracy: number(0)}}}},
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	points, err := Points(summary())
	if err != nil {
		t.Fatal(err)
	}
	table, err := CSV(points)
	if err != nil {
		t.Fatal(err)
	}
	want := `step,name,value
1,kinds/improve,3
1,kinds/initial,5
1,reward_mean,0.25
1,wall_seconds,10
2,reference_replaced,1
2,reward_mean,0.5
2,wall_seconds,2.5
0,held_out/accuracy,0.125
0,held_out/accuracy_by_step/0,0.125
0,held_out/accuracy_by_step/1,0.5
0,held_out/excluded,0
0,held_out/no_room,0
2,held_out/accuracy,1
2,held_out/excluded,0
2,held_out/no_room,0
2,held_out/hard/accuracy,0
2,held_out/hard/excluded,0
2,held_out/hard/no_room,0
`
	if string(table) != want {
		t.Errorf("%s", table)
	}
}

// TestEvents: the bytes that TensorBoard's own RecordWriter makes of these events
// (tensorboard 2.21.0).
func TestEvents(t *testing.T) {
	t.Parallel()
	const want = "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d" +
		"2100000000000000017becf60900006040fc54d94110032a140a120a0b7265776172645f6d65616e150000803eaaaace3f"
	got := hex.EncodeToString(events(time.Unix(1_700_000_000, 0), map[int]time.Duration{3: 1500 * time.Millisecond}, []Point{{"reward_mean", 3, 0.25}}))
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestContinue: TensorBoard's files grow while a run does, and are written anew where what is
// there is of something else.
func TestContinue(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := summary()
	write := func() map[string]string {
		points, err := Points(s)
		if err != nil {
			t.Fatal(err)
		}
		run, err := TensorBoard(folder, s, points)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, file := range []string{"training", "held_out"} {
			content, err := os.ReadFile(filepath.Join(run, file, "events.out.tfevents.1700000000.lathe"))
			if err != nil {
				t.Fatal(err)
			}
			files[file] = string(content)
		}
		return files
	}
	before := write()
	s.IterationsDone = 3
	s.AccuracyByVersion = append(s.AccuracyByVersion, measure.Version{Version: 3, Accuracy: number(0.5)})
	after := write()
	for file := range before {
		if len(after[file]) <= len(before[file]) || !strings.HasPrefix(after[file], before[file]) {
			t.Errorf("%s: %d bytes are not continued by %d", file, len(before[file]), len(after[file]))
		}
	}
	path := filepath.Join(folder, "other")
	for _, content := range []string{"abc", "abcdef", "abcdef", "x"} {
		if err := Continue(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%q, %v, want %q", got, err, content)
		}
	}
}

package bfcl

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// benchmarkData is the folder of BFCL's data, which lies beside the repository
// and is no part of it.
func benchmarkData(t testing.TB) string {
	t.Helper()
	shared := os.Getenv("LATHE_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	folder := filepath.Join(shared, "data", "bfcl")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("no BFCL data in %s: set LATHE_SHARED to the folder that holds data/bfcl", folder)
	}
	return folder
}

func allTasks(t testing.TB) []Task {
	t.Helper()
	tasks, err := ReadTasks(benchmarkData(t))
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func taskByID(t testing.TB) map[string]Task {
	byID := map[string]Task{}
	for _, task := range allTasks(t) {
		byID[task.ID] = task
	}
	return byID
}

// jsonLines decodes a file of JSON lines.
func jsonLines[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var row T
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// plain writes a value as the traces do: keys as texts, sets as lists.
func plain(v python.Value) python.Value {
	switch v := v.(type) {
	case *python.Dict:
		d := &python.Dict{}
		for i := range v.Len() {
			key, value := v.At(i)
			d.Set(python.String(key), plain(value))
		}
		return d
	case *python.List:
		list := &python.List{Items: make([]python.Value, len(v.Items))}
		for i, item := range v.Items {
			list.Items[i] = plain(item)
		}
		return list
	case *python.Set:
		list := python.NewList()
		for _, n := range v.Sorted() {
			list.Items = append(list.Items, n)
		}
		return list
	}
	return v
}

func (w *Simulator) describe() *python.Dict {
	all := &python.Dict{}
	for _, member := range w.members {
		all.Set(member.class.name, plain(member.object.attributes()))
	}
	return all
}

// The traces were recorded from the reference implementation.
func TestReferenceTraces(t *testing.T) {
	t.Parallel()
	byID := taskByID(t)
	type turn struct {
		Calls   []string
		Results []string
		State   json.RawMessage
	}
	type trace struct {
		ID    string
		Turns []turn
	}
	traces := jsonLines[trace](t, filepath.Join(benchmarkData(t), "reference_traces_train.jsonl"))
	if len(traces) != 100 {
		t.Fatalf("%d traces, want 100", len(traces))
	}
	for _, trace := range traces {
		simulator, err := byID[trace.ID].Simulator()
		if err != nil {
			t.Fatal(err)
		}
		for i, turn := range trace.Turns {
			for j, text := range turn.Calls {
				call, err := ParseCall(text)
				if err != nil {
					t.Fatal(err)
				}
				if got := simulator.Execute(call); got.Text != turn.Results[j] || got.Failed {
					t.Errorf("%s turn %d: %s\n got %s\nwant %s", trace.ID, i+1, text, got.Text, turn.Results[j])
				}
			}
			want, err := python.FromJSON(turn.State)
			if err != nil {
				t.Fatal(err)
			}
			if got := simulator.describe(); !python.Equal(got, want) {
				t.Errorf("%s: state after turn %d\n got %s\nwant %s", trace.ID, i+1, python.Repr(got), python.Repr(want))
			}
		}
	}
}

func TestCheckerCases(t *testing.T) {
	t.Parallel()
	byID := taskByID(t)
	type row struct {
		ID, Variant string
		Turns       [][]Call
		Official    bool    `json:"official_checker_valid"`
		ErrorType   string  `json:"official_error_type"`
		StateEqual  bool    `json:"final_state_equal"`
		CallsSubset bool    `json:"ground_truth_calls_subset_per_turn"`
		Reward      float64 `json:"exit_reward"`
	}
	rows := jsonLines[row](t, filepath.Join(benchmarkData(t), "checker_cases_train20.jsonl"))
	if len(rows) != 136 {
		t.Fatalf("%d cases, want 136", len(rows))
	}
	for _, c := range rows {
		got, err := Check(byID[c.ID], c.Turns)
		if err != nil {
			t.Fatal(err)
		}
		want := Verdict{Official: c.Official, ErrorType: c.ErrorType, StateEqual: c.StateEqual, CallsSubset: c.CallsSubset, Reward: c.Reward}
		if got != want {
			t.Errorf("%s %s:\n got %+v\nwant %+v", c.ID, c.Variant, got, want)
		}
	}
}

// A policy that makes the reference calls gets every point, on all 200 tasks,
// the three turns without reference calls included.
func TestGroundTruths(t *testing.T) {
	t.Parallel()
	tasks := allTasks(t)
	calls := 0
	for _, task := range tasks {
		simulator, err := task.Simulator()
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range task.Truth {
			for _, call := range turn {
				calls++
				if got := simulator.Execute(call); got.Failed {
					t.Errorf("%s: %s: %s", task.ID, call.Name, got.Text)
				}
			}
		}
		got, err := Check(task, task.Truth)
		if err != nil {
			t.Fatal(err)
		}
		if want := (Verdict{Official: true, StateEqual: true, CallsSubset: true, Reward: 1}); got != want {
			t.Errorf("%s: got %+v, want %+v", task.ID, got, want)
		}
	}
	if len(tasks) != 200 || calls != 1142 {
		t.Errorf("%d tasks with %d calls, want 200 with 1142", len(tasks), calls)
	}
}

// Every documented function is there, with the parameters, their order and
// their defaults as documented.
func TestSignaturesAreAsDocumented(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"gorilla_file_system": "GorillaFileSystem", "math_api": "MathAPI", "message_api": "MessageAPI", "ticket_api": "TicketAPI",
		"posting_api": "TwitterAPI", "trading_bot": "TradingBot", "travel_booking": "TravelAPI", "vehicle_control": "VehicleControlAPI",
	}
	documented, names := 0, map[string]bool{}
	for file, name := range files {
		type doc struct {
			Name       string
			Parameters struct {
				Properties json.RawMessage
				Required   []string
			}
		}
		docs := jsonLines[doc](t, filepath.Join(benchmarkData(t), "multi_turn_func_doc", file+".json"))
		if got := len(classes[name].functions); got != len(docs) {
			t.Errorf("%s has %d functions, documented are %d", name, got, len(docs))
		}
		for _, d := range docs {
			documented++
			if names[d.Name] {
				t.Errorf("two classes have a %s", d.Name)
			}
			names[d.Name] = true
			f := classes[name].functions[d.Name]
			if f == nil {
				t.Errorf("%s has no %s", name, d.Name)
				continue
			}
			value, err := python.FromJSON(d.Parameters.Properties)
			if err != nil {
				t.Fatal(err)
			}
			properties := value.(*python.Dict)
			if properties.Len() != len(f.parameters) {
				t.Errorf("%s has %d parameters, documented are %d", d.Name, len(f.parameters), properties.Len())
				continue
			}
			for i, p := range f.parameters {
				key, property := properties.At(i)
				if key != p.name || p.optional == slices.Contains(d.Parameters.Required, p.name) {
					t.Errorf("%s: parameter %d is %q (optional: %v), documented is %v", d.Name, i+1, p.name, p.optional, key)
				}
				fallback, given := property.(*python.Dict).Get("default")
				if given && fallback != "None" && !python.Equal(fallback, p.fallback) {
					t.Errorf("%s: default of %s is %v, documented is %v", d.Name, p.name, p.fallback, fallback)
				}
			}
		}
	}
	if documented != 128 {
		t.Errorf("%d functions are documented, want 128", documented)
	}
}

// BenchmarkGroundTruths runs the reference calls of all tasks; an operation is
// one call, the making of its simulator shared among the calls of its task.
func BenchmarkGroundTruths(b *testing.B) {
	tasks := allTasks(b)
	done := 0
	for b.Loop() {
		for _, task := range tasks {
			simulator, err := task.Simulator()
			if err != nil {
				b.Fatal(err)
			}
			for _, turn := range task.Truth {
				for _, call := range turn {
					simulator.Execute(call)
					done++
				}
			}
		}
	}
	b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkCheck checks the reference calls of all tasks.
func BenchmarkCheck(b *testing.B) {
	tasks := allTasks(b)
	done := 0
	for b.Loop() {
		for _, task := range tasks {
			if _, err := Check(task, task.Truth); err != nil {
				b.Fatal(err)
			}
			done++
		}
	}
	b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "episodes/s")
}

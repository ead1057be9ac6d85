package shard

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
)

// Runs of rows with one instance and sample are traces.
func TestTraces(t *testing.T) {
	t.Parallel()
	rows := []Score{{InstanceID: "a"}, {InstanceID: "a"}, {InstanceID: "a", Sample: 1}, {InstanceID: "b", Sample: 1}, {InstanceID: "a", Sample: 1}}
	var got []string
	for _, trace := range Traces(rows) {
		got = append(got, fmt.Sprint(trace[0].InstanceID, trace[0].Sample, len(trace)))
	}
	if text := strings.Join(got, ";"); text != "a0 2;a1 1;b1 1;a1 1" || Traces([]Score{}) != nil {
		t.Errorf("traces %s", text)
	}
	for _, c := range []struct {
		waits   Wait
		outcome Outcome
		want    bool
	}{{WaitTurn, OutcomeOK, true}, {WaitStep, OutcomeWrong, true}, {WaitNone, OutcomeOK, false}, {WaitTurn, OutcomeInfra, false}} {
		if got := GoesOn([]Rollout{{Waits: string(WaitNone)}, {Waits: string(c.waits)}}, Score{Outcome: string(c.outcome)}); got != c.want {
			t.Errorf("%+v goes on: %t", c, got)
		}
	}
}

// More than one attempt of a hundred without room is told of, of training and of the
// evaluation apart.
func TestRoom(t *testing.T) {
	t.Parallel()
	var rooms Rooms
	for range 2 {
		rooms.Training.Add(map[string]float64{MetricAttempts: 100, MetricNoRoom: 1})
		rooms.Evaluation.Add(map[string]float64{MetricAttempts: 50, MetricNoRoom: 2})
	}
	if got := rooms.Warnings(); len(got) != 1 || !strings.HasPrefix(got[0], "4 of 100 responses of evaluation (4.0 %)") {
		t.Errorf("%+v: %q", rooms, got)
	}
	if got := (Rooms{}).Warnings(); len(got) != 0 {
		t.Errorf("of nothing: %q", got)
	}
	if got := Sandboxes(map[string]float64{UsageSandbox + "landlock": 3, "seconds": 9}); !maps.Equal(got, map[string]int{"landlock": 3}) {
		t.Errorf("sandboxes %v", got)
	}
}

// The memory of values by their parts: a text of 3 bytes and its header of 16, a list of
// 4 numbers of 8 bytes and its header of 24, a pointer and what it points to.
func TestFootprint(t *testing.T) {
	t.Parallel()
	number := int64(1)
	for _, c := range []struct {
		value any
		want  int64
	}{
		{int32(1), 4},
		{"abc", 16 + 3},
		{make([]int64, 2, 4), 24 + 4*8},
		{[]string{"ab", "c"}, 24 + 2*16 + 3},
		{&number, 8 + 8},
		{(*int64)(nil), 8},
		{[]*int64{&number, nil}, 24 + 2*8 + 8},
		{[][]bool{{true}, {}}, 24 + 2*24 + 1},
		{Message{Role: "r", Content: "cc"}, int64(reflect.TypeFor[Message]().Size()) + 3},
	} {
		if got := footprint(reflect.ValueOf(c.value)); got != c.want {
			t.Errorf("%T takes %d bytes, want %d", c.value, got, c.want)
		}
	}
	if mostDecoded(1) != 512<<20 || mostDecoded(1<<20) != 1000<<20 {
		t.Errorf("bounds %d and %d", mostDecoded(1), mostDecoded(1<<20))
	}
}

// The version of each schema: another major version makes older files unreadable.
func TestSchemas(t *testing.T) {
	t.Parallel()
	var got []string
	for _, row := range []Row{TaskRow{}, Instance{}, Rollout{}, Score{}, EvaluationRow{}, LedgerRow{}, Metric{}, Usage{}, Entry{}, Stat{}, Waiting{}, Sample{}, PoolRow{}} {
		got = append(got, row.Schema().String())
	}
	if want := "task/v1.1 instance/v2.2 rollout/v2.1 score/v2.3 evaluation/v1.5 ledger/v2.1 metrics/v1.0 usage/v1.0 entry/v1.0 stat/v1.0 waiting/v1.0 sample/v1.0 pool/v1.0"; strings.Join(got, " ") != want {
		t.Errorf("schemas %s", strings.Join(got, " "))
	}
}

// TestUntrained: what is masked is counted apart from what is dropped for the same reason.
func TestUntrained(t *testing.T) {
	t.Parallel()
	for disposition, want := range map[Fate]string{FateMasked: "overlong (masked)", FateDropped: "overlong"} {
		if got := (LedgerRow{Fate: string(disposition), Reason: "overlong"}).Untrained(); got != want {
			t.Errorf("%s: %q, want %q", disposition, got, want)
		}
	}
}

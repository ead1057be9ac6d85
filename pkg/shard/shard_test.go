package shard

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lathe-rl/lathe/pkg/seal"
)

func sameRows[T any](t *testing.T, got, want T) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("rows differ (-want +got):\n%s", d)
	}
}

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	a := seal.AttemptFromEnv()
	rows := []Rollout{{InstanceID: "i1", Messages: []Message{{"user", "hi"}, {"assistant", "ho"}}, TokenIDs: []int32{1, 2, 300000}, LossMask: []bool{false, true, true}, LogProbs: []float32{0, -1.5, -2}, GenerateSeconds: 3}, {InstanceID: "i2"}}
	p := filepath.Join(dir, "rollout", "00001.parquet")
	m, err := Write(p, rows, map[string]string{"b": "1", "a": "2"}, a, seal.Manifest{PolicyVersion: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", m)
	got, _, err := Read[Rollout](context.Background(), p, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sameRows(t, got, rows)
	seqs := []Sequence{{TokenIDs: []int32{1, 2}, LossMask: []bool{false, true}, Positions: []int32{0, 1}, Advantages: []float32{0, 2}, OldLogProbs: []float32{0, -1}, Weight: 2, GroupID: "g"}, {}}
	p = filepath.Join(dir, "batch.arrow")
	if _, err := WriteBatch(p, seqs, map[string]string{"k": "v"}, a, seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	gs, meta, _, err := ReadBatch(context.Background(), p, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sameRows(t, gs, seqs)
	sameRows(t, meta, map[string]string{"k": "v"})
	ts := []Tensor{{"a", []int{2, 2}, []float32{1, 2, 3, 4}}, {"empty", []int{0, 3}, nil}, {"scalar", nil, []float32{7}}}
	p = filepath.Join(dir, "grad.arrow")
	if _, err := WriteTensors(p, ts, map[string]string{"k": "v"}, a, seal.Manifest{}); err != nil {
		t.Fatal(err)
	}
	gt, meta, _, err := ReadTensors(context.Background(), p, seal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sameRows(t, gt, ts)
	sameRows(t, meta, map[string]string{"k": "v"})
}

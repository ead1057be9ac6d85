package slurm

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestShardsAreRanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shards Shards
		text   string
	}{
		{nil, `""`},
		{Shards{7}, `"7"`},
		{Shards{0, 1, 2, 3}, `"0-3"`},
		{Shards{2, 3, 5, 7, 8, 9}, `"2-3,5,7-9"`},
		{Shards{4, 3, 3, 4}, `"4,3,3-4"`}, // the order is that of the tasks
	} {
		text, err := json.Marshal(c.shards)
		if err != nil || string(text) != c.text {
			t.Errorf("%v is written %s, %v; want %s", []int(c.shards), text, err, c.text)
		}
	}
	for text, want := range map[string]Shards{`[0, 1, 5]`: {0, 1, 5}, `[]`: {}, `null`: nil, `""`: nil, `"3-5,9"`: {3, 4, 5, 9}} {
		var got Shards
		if err := json.Unmarshal([]byte(text), &got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is read as %v, %v; want %v", text, []int(got), err, []int(want))
		}
	}
	for _, text := range []string{`"x"`, `"5-3"`, `"1,"`, `"-1"`, `7`, `{}`, `["a"]`, `"0-4000000,0-4000000"`} {
		var got Shards
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is read as %v", text, []int(got))
		}
	}
}

// What is written is read again, in its order.
func TestShardsAreReadAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		job := Job{ID: "12", Array: true, Shards: rapid.SliceOf(rapid.IntRange(0, 1<<16)).Draw(t, "shards")}
		text, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		var got Job
		if err := json.Unmarshal(text, &got); err != nil || !slices.Equal(got.Shards, job.Shards) {
			t.Fatalf("%v is written %s and read as %v, %v", []int(job.Shards), text, []int(got.Shards), err)
		}
	})
}

package score_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/score"
)

// TestEndpoint: a server of embeddings is asked for each different response once,
// for its last characters where the recipe says so; what we failed to sample has
// none, and evaluations do not ask.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ Input []string }
		_ = json.NewDecoder(r.Body).Decode(&ask) // what cannot be read asks for nothing
		var data []map[string]any
		for i, text := range ask.Input {
			asked = append(asked, text)
			data = append(data, map[string]any{"index": i, "embedding": []float64{float64(text[0]), 1}})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data}) // a client that has gone is no concern of ours
	}))
	defer server.Close()
	r := stagetest.New(t, "score.embedding=endpoint", "score.endpoint={url: '"+server.URL+"', model: bert, batch: 2, concurrency: 1, characters: 2}")
	plan, instances := r.Plan(5)
	rollouts := answers(r, instances, func(i int) (string, shard.Outcome) {
		return []string{"12", "9912", "7", "", "8"}[i], []shard.Outcome{shard.OutcomeOK, shard.OutcomeOK, shard.OutcomeOK, shard.OutcomeOK, shard.OutcomeInfra}[i]
	})
	rows, _ := run(r, plan, rollouts)
	var got [][]float32
	for _, row := range rows {
		got = append(got, row.Embedding)
	}
	if diff := cmp.Diff([][]float32{{'1', 1}, {'1', 1}, {'7', 1}, {' ', 1}, {}}, got); diff != "" {
		t.Errorf("embeddings (-want +got):\n%s", diff)
	}
	if want := []string{"12", "7", " "}; !slices.Equal(asked, want) {
		t.Errorf("the server was asked for %q, want %q", asked, want)
	}
	asked = nil
	_, err := score.Run(r.Context(), r.Job, r.Recipe.Score, r.Env, score.Inputs{Plan: plan, Rollout: rollouts, Iteration: 1, Of: 1, Output: r.Path("evalscore.parquet"), Evaluation: true})
	r.Check(err)
	if len(asked) > 0 {
		t.Errorf("an evaluation asked for %q", asked)
	}
}

// TestPolicyEmbedding: with score.embedding policy the score has what the rollout
// says of the trace, and without it not.
func TestPolicyEmbedding(t *testing.T) {
	t.Parallel()
	for embedding, want := range map[string][]float32{"policy": {1, 2}, "none": {}} {
		r := stagetest.New(t, "score.embedding="+embedding, "factors=[]")
		plan, instances := r.Plan(1)
		rows := stagetest.Read[shard.Rollout](r, answers(r, instances, func(int) (string, shard.Outcome) { return "1", shard.OutcomeOK }))
		rows[0].Embedding = []float32{1, 2}
		path := r.Path("embedded.parquet")
		r.Check(stagetest.Write(path, rows))
		scores, _ := run(r, plan, path)
		if diff := cmp.Diff(want, scores[0].Embedding); diff != "" {
			t.Errorf("%s (-want +got):\n%s", embedding, diff)
		}
	}
}

package remote_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
)

// lengths answers with the length of each text and its half, the last one first.
func lengths(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Model string
		Input []string
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || ask.Model != "bert" || r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/v1/embeddings" {
		http.Error(w, "not what was to be asked", http.StatusBadRequest)
		return
	}
	var data []map[string]any
	for i := len(ask.Input) - 1; i >= 0; i-- {
		data = append(data, map[string]any{"index": i, "embedding": []float64{float64(len(ask.Input[i])), float64(len(ask.Input[i])) / 2}})
	}
	answerJSON(w, map[string]any{"data": data})
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone is no concern of ours
}

func embed(t *testing.T, batch int, texts []string, handler http.HandlerFunc) ([][]float32, error) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	return remote.Embed(t.Context(), remote.Options{
		URL: server.URL, Model: "bert", Key: "secret", Section: "score.endpoint", Concurrency: 2, Timeout: 5 * time.Second, Retries: 2, Backoff: time.Millisecond,
	}, batch, texts)
}

// TestEmbed: each text gets its own embedding, however requests are cut and in
// whatever order an answer has them.
func TestEmbed(t *testing.T) {
	t.Parallel()
	texts := []string{"a", "bb", "", "dddd", "eeeee"}
	want := [][]float32{{1, .5}, {2, 1}, {0, 0}, {4, 2}, {5, 2.5}}
	for batch := 1; batch <= 6; batch++ {
		got, err := embed(t, batch, texts, lengths)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%d a request: %v (-want +got):\n%s", batch, err, diff)
		}
	}
	if got, err := embed(t, 3, nil, lengths); err != nil || len(got) != 0 {
		t.Errorf("no text: %v, %v", got, err)
	}
}

// TestEmbedAgain: a server that fails twice is asked a third time.
func TestEmbedAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	got, err := embed(t, 4, []string{"abc"}, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		lengths(w, r)
	})
	if diff := cmp.Diff([][]float32{{3, 1.5}}, got); err != nil || diff != "" || asked.Load() != 3 {
		t.Errorf("asked %d times: %v (-want +got):\n%s", asked.Load(), err, diff)
	}
}

// TestEmbedRefused: what is no embedding of each text is an error that says so.
func TestEmbedRefused(t *testing.T) {
	t.Parallel()
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
		}
	}
	for want, handler := range map[string]http.HandlerFunc{
		"the answer has 1 embeddings, want 2":                            answer(`{"data": [{"index": 0, "embedding": [1]}]}`),
		"the answer's index 0 is out of range for 2 texts or repeated":   answer(`{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}`),
		"the answer's index 2 is out of range for 2 texts or repeated":   answer(`{"data": [{"index": 2, "embedding": [1]}]}`),
		"embedding 1 has no numbers":                                     answer(`{"data": [{"index": 1, "embedding": []}]}`),
		"number 0 of embedding 0 is 1e+300":                              answer(`{"data": [{"index": 0, "embedding": [1e300]}]}`),
		"gave embeddings of 1 and of 2 numbers":                          answer(`{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}`),
		"unreadable answer":                                              answer(`{"data": 3}`),
		"not JSON":                                                       func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"rejects the request: /v1/embeddings: 400 Bad Request: too long": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "too long", http.StatusBadRequest) },
	} {
		_, err := embed(t, 2, []string{"a", "b"}, handler)
		if exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	_, err := embed(t, 2, []string{"a"}, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) })
	if hint := fmt.Sprint(exitcode.Hints(err)); !strings.Contains(hint, "score.endpoint.api_key_env") {
		t.Errorf("hint %q, want one that names the setting of the key", hint)
	}
}

package remote_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestMessage: what is asked, what is taken of the answer, and what is an error.
func TestMessage(t *testing.T) {
	t.Parallel()
	answer := func(finish, content string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var ask struct {
				Model       string
				Temperature *float64
				MaxTokens   int `json:"max_tokens"`
				Messages    []struct{ Role, Content string }
			}
			if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || ask.Model != "coder" || r.URL.Path != "/v1/chat/completions" ||
				r.Header.Get("Authorization") != "Bearer secret" || ask.Temperature == nil || *ask.Temperature != 0 || ask.MaxTokens != 7 ||
				len(ask.Messages) != 1 || ask.Messages[0].Role != "user" || ask.Messages[0].Content != "hello" {
				http.Error(w, "not what was to be asked", http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(strings.NewReplacer("FINISH", finish, "CONTENT", content).Replace(`{"choices":[{"message":{"role":"assistant","content":CONTENT},"finish_reason":"FINISH"}]}`)))
		}
	}
	var tries atomic.Int32
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		text    string
		cut     bool
		code    int
	}{
		{"whole", answer("stop", `"print(1)"`), "print(1)", false, exitcode.OK},
		{"cut", answer("length", `"print("`), "print(", true, exitcode.OK},
		{"no text", answer("stop", "null"), "", false, exitcode.Unavailable},
		{"busy at first", func(w http.ResponseWriter, r *http.Request) {
			if tries.Add(1) == 1 {
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return
			}
			answer("stop", `"x"`)(w, r)
		}, "x", false, exitcode.OK},
		{"refused", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, "", false, exitcode.Unavailable},
	} {
		server := httptest.NewServer(c.handler)
		text, cut, err := remote.Message(t.Context(), remote.Options{
			URL: server.URL, Model: "coder", Key: "secret", Section: "score.assistant", Timeout: 5 * time.Second, Retries: 1, Backoff: time.Millisecond,
		}, []shard.Message{{Role: "user", Content: "hello"}}, 7)
		server.Close()
		if text != c.text || cut != c.cut || exitcode.Code(err) != c.code {
			t.Errorf("%s: %q, cut %v, %v; want %q, %v, code %d", c.name, text, cut, err, c.text, c.cut, c.code)
		}
	}
}

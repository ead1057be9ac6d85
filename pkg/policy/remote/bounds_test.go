package remote

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/rng"
)

// says is a server in place of a network.
type says func(*http.Request) *http.Response

func (s says) RoundTrip(r *http.Request) (*http.Response, error) { return s(r), nil }

func bounded(s says) (*Client, Turn) {
	turn := Turn{Request: policy.Request{Prompt: []int32{1, 2}, MaxNewTokens: 4, StopTokens: []int32{10}, Stream: rng.New(7, rng.PurposeTest, 1, "a", 0)}}
	return &Client{
		o: Options{
			Server: VLLM, API: Completions, Concurrency: 32, Retries: 1, Timeout: time.Hour, Backoff: time.Millisecond,
			Tokenizer: byteText{}, Config: policy.Config{VocabSize: 256},
		},
		http: &http.Client{Transport: s}, base: "http://server", longest: 100,
	}, turn
}

// Without a deadline of the task's own the server does not say how long a task
// takes.
func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"86400", time.Now().AddDate(200, 0, 0).UTC().Format(http.TimeFormat)} {
		synctest.Test(t, func(t *testing.T) {
			client, turn := bounded(func(*http.Request) *http.Response {
				return &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {header}}, Body: io.NopCloser(strings.NewReader("later"))}
			})
			began := time.Now()
			replies, err := client.Generate(context.Background(), []Turn{turn})
			if took := time.Since(began); err != nil || replies[0].Tries != 2 || took > longestBackoff {
				t.Errorf("after %s: %+v, %v", took, replies, err)
			}
		})
	}
}

// An answer takes no more memory than what was asked for.
func TestAnswersTakeLittle(t *testing.T) {
	for name, text := range map[string]string{
		"empty choices": `{"choices":[` + strings.Repeat("{},", answerBytes/3-100) + `{}]}`,
		"tool calls":    `{"choices":[{"message":{"tool_calls":[` + strings.Repeat("1,", answerBytes/2-100) + `1]}}]}`,
		"long":          `{"choices":[]}` + strings.Repeat(" ", 1<<20),
	} {
		client, turn := bounded(func(*http.Request) *http.Response {
			return &http.Response{
				StatusCode: 200, ContentLength: -1, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)),
			}
		})
		turns := make([]Turn, 32)
		for i := range turns {
			turns[i] = turn
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		replies, err := client.Generate(t.Context(), turns)
		runtime.ReadMemStats(&after)
		const most = 32 * 2 * 8 * answerBytes // of each try of each turn
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%s: %d bytes were allocated, at most %d were to be expected", name, took, most)
		}
		if err == nil && replies[0].Failed == nil {
			t.Errorf("%s: it is believed", name)
		}
	}
}

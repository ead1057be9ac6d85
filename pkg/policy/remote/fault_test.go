package remote_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
)

type responseWriter = http.ResponseWriter

type tamper = func(n int, w http.ResponseWriter, r *http.Request, answer map[string]any) bool

// everySecond spoils every second answer.
func everySecond(spoil func(w responseWriter)) tamper {
	return func(n int, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		if n%2 == 0 {
			spoil(w)
			return true
		}
		return false
	}
}

func choiceOf(answer map[string]any) map[string]any {
	return answer["choices"].([]any)[0].(map[string]any)
}

// hang takes the connection and says nothing more.
func hang(w http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

// hijack writes raw bytes and closes the connection.
func hijack(w http.ResponseWriter, raw string) bool {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(connection, raw)
	_ = connection.Close()
	return true
}

// change returns a tamper that changes the answer and lets it be sent.
func change(f func(answer, choice map[string]any)) tamper {
	return func(_ int, _ http.ResponseWriter, _ *http.Request, answer map[string]any) bool {
		f(answer, choiceOf(answer))
		return false
	}
}

func answer(code int, kind, text string) tamper {
	return func(_ int, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		return answerWith(w, code, kind, text)
	}
}

// spoiled are the ways in which an answer can be wrong although another try
// may be right. Each must be asked for again, and never believed.
var spoiled = []struct {
	name  string
	spoil tamper
	says  string
}{
	{"429", answer(429, "application/json", `{"error":{"message":"slow down"}}`), "slow down"},
	{"500", answer(500, "text/plain", "Internal Server Error"), "500"},
	{"502", answer(502, "text/html", "<html>bad gateway</html>"), "502"},
	{"503", answer(503, "application/json", `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`), "Loading model"},
	{"408", answer(408, "text/plain", ""), "(no message)"},
	{"hangs", func(_ int, w http.ResponseWriter, r *http.Request, _ map[string]any) bool { return hang(w, r) }, "no answer within"},
	{"stalls inside the body", func(_ int, w http.ResponseWriter, r *http.Request, _ map[string]any) bool {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"index":0,`)
		w.(http.Flusher).Flush()
		return hang(w, r)
	}, "no answer within"},
	{"drops before the answer", func(_ int, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool { return hijack(w, "") }, "EOF"},
	{"drops inside the headers", func(_ int, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		return hijack(w, "HTTP/1.1 200 OK\r\nContent-Ty")
	}, "malformed"},
	{"drops inside the body", func(_ int, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		return hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"choices\":[")
	}, "EOF"},
	{"is no HTTP", func(_ int, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		return hijack(w, "SSH-2.0-OpenSSH_9.2\r\n")
	}, "malformed HTTP"},
	{"cut JSON", answer(200, "application/json", `{"choices":[{"index":0,"token_ids":[1,2`), "incomplete"},
	{"two JSON documents", answer(200, "application/json", `{"choices":[]}{"choices":[]}`), "incomplete"},
	{"HTML", answer(200, "text/html; charset=utf-8", "<html>log in</html>"), "log in"},
	{"no content type", answer(200, "", `{"choices":[]}`), "not JSON"},
	{"a list", answer(200, "application/json", `[1,2,3]`), "form"},
	{"declared to be 2 GB", func(_ int, w http.ResponseWriter, r *http.Request, _ map[string]any) bool {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "2147483648")
		_, _ = io.WriteString(w, `{"choices":[`)
		return true
	}, "2147483648 bytes"},
	{"endless", func(_ int, w http.ResponseWriter, r *http.Request, _ map[string]any) bool {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"`)
		for block := strings.Repeat("x", 1<<16); r.Context().Err() == nil; {
			if _, err := io.WriteString(w, block); err != nil {
				return true
			}
		}
		return true
	}, "more than"},
	{"no choices", change(func(a, _ map[string]any) { a["choices"] = []any{} }), "0 responses"},
	{"choices twice", change(func(a, c map[string]any) { a["choices"] = []any{c, c} }), "2 responses"},
	{"no finish reason", change(func(_, c map[string]any) { c["finish_reason"] = nil }), `reason ""`},
	{"aborted", change(func(_, c map[string]any) { c["finish_reason"] = "abort" }), `reason "abort"`},
	{"fewer log-probabilities", change(func(_, c map[string]any) {
		l := c["logprobs"].(map[string]any)
		l["token_logprobs"] = l["token_logprobs"].([]float32)[1:]
	}), "log-probabilities"},
	{"fewer tokens with log-probabilities", change(func(_, c map[string]any) {
		l := c["logprobs"].(map[string]any)
		l["tokens"], l["token_logprobs"] = l["tokens"].([]string)[1:], l["token_logprobs"].([]float32)[1:]
	}), "beside the log-probabilities"},
	{"other ids beside the log-probabilities", change(func(_, c map[string]any) {
		c["logprobs"].(map[string]any)["tokens"].([]string)[0] = "token_id:77"
	}), "beside the log-probabilities"},
	{"positive log-probability", change(func(_, c map[string]any) {
		c["logprobs"].(map[string]any)["token_logprobs"].([]float32)[0] = 0.5
	}), "log-probability of token 0 is 0.5"},
	{"NaN log-probability", answer(200, "application/json",
		`{"choices":[{"index":0,"text":"","finish_reason":"length","token_ids":[1],"logprobs":{"tokens":["token_id:1"],"token_logprobs":[NaN]}}]}`), "incomplete"},
	{"id beyond the vocabulary", change(func(_, c map[string]any) {
		ids := append([]int32(nil), c["token_ids"].([]int32)...)
		ids[0] = 259
		c["token_ids"], c["logprobs"] = ids, nil
	}), "the policy has ids up to 258"},
	{"negative id", change(func(_, c map[string]any) {
		c["token_ids"] = append([]int32{-1}, c["token_ids"].([]int32)[1:]...)
		c["logprobs"] = nil
	}), "has the id -1"},
	{"id that is no number", change(func(_, c map[string]any) { c["token_ids"] = []string{"one"} }), "form"},
	{"claims more tokens than it gives", change(func(a, _ map[string]any) {
		a["usage"].(map[string]any)["completion_tokens"] = maxNewTokens + 1
	}), "counts 13"},
	{"claims fewer", change(func(a, _ map[string]any) { a["usage"].(map[string]any)["completion_tokens"] = 0 }), "counts 0"},
	{"more tokens than were asked for", change(func(a, c map[string]any) {
		ids := make([]int32, maxNewTokens+3)
		for i := range ids {
			ids[i] = 'b' // 98 is no stop token
		}
		c["token_ids"], c["logprobs"] = ids, nil
		a["usage"].(map[string]any)["completion_tokens"] = len(ids)
	}), "want at most 12"},
	{"cut off early", change(func(a, c map[string]any) {
		c["token_ids"], c["logprobs"], c["finish_reason"] = []int32{'b', 'c'}, nil, "length"
		a["usage"].(map[string]any)["completion_tokens"] = 2
	}), "cut off after 2 of 12 tokens"},
	{"cut off at nothing", change(func(a, c map[string]any) {
		c["token_ids"], c["logprobs"], c["finish_reason"] = []int32{}, nil, "length"
		a["usage"].(map[string]any)["completion_tokens"] = 0
	}), "cut off after 0 tokens"},
	{"stops at no stop token", change(func(a, c map[string]any) {
		c["token_ids"], c["logprobs"], c["finish_reason"] = []int32{'b', 'c'}, nil, "stop"
		a["usage"].(map[string]any)["completion_tokens"] = 2
		delete(c, "stop_reason")
	}), "not a stop token"},
	{"goes on after a stop token", change(func(a, c map[string]any) {
		c["token_ids"], c["logprobs"], c["finish_reason"] = []int32{'b', 258, 'c', 258}, nil, "stop"
		a["usage"].(map[string]any)["completion_tokens"] = 4
	}), "token 1 is a stop token"},
	{"neither ids nor text", change(func(_, c map[string]any) {
		delete(c, "token_ids")
		delete(c, "text")
		c["logprobs"] = nil
	}), "neither token ids nor text"},
}

// TestSpoiledAnswersAreAskedForAgain: the first two answers are wrong, and the
// replies are those of a server that never was.
func TestSpoiledAnswersAreAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, c := range spoiled {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, remote.VLLM)
			turns := f.turns(1, policy.Sampling{Temperature: 1})
			want := f.local(turns)
			f.server.Tamper = func(n int, w http.ResponseWriter, r *http.Request, a map[string]any) bool {
				return n < 2 && c.spoil(n, w, r, a)
			}
			o := f.options()
			o.Timeout = time.Second
			got, err := f.open(o).Generate(t.Context(), turns)
			if err != nil {
				t.Fatal(err)
			}
			if got[0].Failed != nil || got[0].Tries != 3 || !equal(got[0].Completion, want[0]) {
				t.Errorf("%+v, want %+v at the third try", got[0], want[0])
			}
		})
	}
}

// TestSpoiledAnswersAreNeverBelieved: a server that is wrong every time leaves
// the response without an answer, and says why.
func TestSpoiledAnswersAreNeverBelieved(t *testing.T) {
	t.Parallel()
	for _, c := range spoiled {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, remote.VLLM)
			f.server.Tamper = c.spoil
			o := f.options()
			o.Retries = 1
			if strings.Contains(c.says, "no answer within") {
				o.Timeout = 300 * time.Millisecond
			}
			turns := f.turns(2, policy.Sampling{Temperature: 1})
			f.local(turns)
			got, err := f.open(o).Generate(t.Context(), turns)
			if err != nil {
				t.Fatal(err)
			}
			for i, reply := range got {
				switch {
				case reply.Failed == nil:
					t.Errorf("turn %d is believed: %+v", i, reply)
				case !strings.Contains(reply.Failed.Error(), c.says) || reply.Tries != 2:
					t.Errorf("turn %d after %d tries: %v, want %q", i, reply.Tries, reply.Failed, c.says)
				case len(reply.TokenIDs)+len(reply.LogProbs) != 0:
					t.Errorf("turn %d failed and holds tokens: %+v", i, reply)
				}
			}
		})
	}
}

func equal(a, b policy.Completion) bool {
	return slices.Equal(a.TokenIDs, b.TokenIDs) && slices.Equal(a.LogProbs, b.LogProbs) && a.FinishReason == b.FinishReason
}

// TestRefusalsEndTheTask: what no other try mends is one error with the
// server's words, at once.
func TestRefusalsEndTheTask(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil tamper
		says  string
		code  int
	}{
		{"400", answer(400, "application/json", `{"error":{"message":"max_tokens is too large","type":"BadRequestError","code":400}}`), "max_tokens is too large", exitcode.Unavailable},
		{"401", answer(401, "application/json", `{"error":"Unauthorized"}`), "Unauthorized", exitcode.Unavailable},
		{"404", answer(404, "application/json", `{"object":"error","message":"The model does not exist."}`), "The model does not exist.", exitcode.Unavailable},
		{"422", answer(422, "application/json", `{"detail":[{"loc":["body","prompt"],"msg":"wrong type"}]}`), "wrong type", exitcode.Unavailable},
		{"501", answer(501, "text/plain", "no completions here"), "no completions here", exitcode.Unavailable},
		{"redirect", func(_ int, w http.ResponseWriter, r *http.Request, _ map[string]any) bool {
			http.Redirect(w, r, "https://elsewhere.example/v1/completions", http.StatusTemporaryRedirect)
			return true
		}, "redirects to https://elsewhere.example/v1/completions", exitcode.Unavailable},
		{"another prompt", change(func(_, c map[string]any) {
			c["prompt_token_ids"] = append([]int32{1}, c["prompt_token_ids"].([]int32)...)
		}), "token 0 is 1", exitcode.Data},
		{"a cut prompt", change(func(_, c map[string]any) {
			ids := c["prompt_token_ids"].([]int32)
			c["prompt_token_ids"] = ids[:len(ids)-1]
		}), "it has", exitcode.Data},
		{"a prompt of another length", change(func(a, c map[string]any) {
			delete(c, "prompt_token_ids")
			a["usage"].(map[string]any)["prompt_tokens"] = 1
		}), "it counts 1 tokens", exitcode.Data},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, remote.VLLM)
			f.server.Tamper = c.spoil
			o := f.options()
			o.Concurrency = 1
			_, err := f.open(o).Generate(t.Context(), f.turns(8, policy.Sampling{Temperature: 1}))
			if exitcode.Code(err) != c.code || !strings.Contains(err.Error(), c.says) || len(exitcode.Hints(err)) == 0 && c.code == exitcode.Data {
				t.Errorf("exit code %d: %v", exitcode.Code(err), err)
			}
			if n := f.server.Requests(); n != 1 {
				t.Errorf("%d requests were made", n)
			}
		})
	}
}

// TestTakenApart: a server that takes the response apart and gives no ids has
// told what was sampled to nobody.
func TestTakenApart(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(message map[string]any){
		"reasoning":  func(m map[string]any) { m["reasoning_content"] = "I think" },
		"tool calls": func(m map[string]any) { m["tool_calls"] = []any{map[string]any{"type": "function"}} },
	} {
		f := newFixture(t, remote.OpenAI)
		f.server.Tamper = change(func(_, c map[string]any) { add(c["message"].(map[string]any)) })
		o := f.options()
		o.API = remote.Chat
		_, err := f.open(o).Generate(t.Context(), f.turns(1, policy.Sampling{Temperature: 1}))
		if exitcode.Code(err) != exitcode.Unavailable || len(exitcode.Hints(err)) == 0 {
			t.Errorf("%s: exit code %d: %v", name, exitcode.Code(err), err)
		}
	}
}

// TestUnknownLogProbs: null, and what stands for a probability of 0, are no
// log-probabilities; the tokens are none the worse.
func TestUnknownLogProbs(t *testing.T) {
	t.Parallel()
	for _, value := range []any{nil, -9999.0, -3.4028234663852886e38} {
		f := newFixture(t, remote.SGLang)
		f.server.Tamper = change(func(_, c map[string]any) {
			l := c["logprobs"].(map[string]any)
			values := []any{value}
			for _, v := range l["token_logprobs"].([]float32)[1:] {
				values = append(values, v)
			}
			l["token_logprobs"] = values
		})
		turns := f.turns(1, policy.Sampling{Temperature: 1})
		want := f.local(turns)
		want[0].LogProbs = nil
		got, err := f.open(f.options()).Generate(t.Context(), turns)
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Failed != nil || !equal(got[0].Completion, want[0]) || got[0].Retokenized {
			t.Errorf("%v: %+v, want %+v", value, got[0], want[0])
		}
	}
}

// TestTrimmedStopToken: a server that leaves the stop token out and names it
// is understood; what it knew of its probability is unknown.
func TestTrimmedStopToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.SGLang)
	f.server.Tamper = change(func(a, c map[string]any) {
		c["token_ids"], c["logprobs"], c["finish_reason"], c["matched_stop"] = []int32{'b', 'c'}, nil, "stop", 258
		a["usage"].(map[string]any)["completion_tokens"] = 2
	})
	got, err := f.open(f.options()).Generate(t.Context(), f.turns(1, policy.Sampling{Temperature: 1}))
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Completion{TokenIDs: []int32{'b', 'c', 258}, FinishReason: policy.FinishStop}
	if !equal(got[0].Completion, want) {
		t.Errorf("%+v, want %+v", got[0], want)
	}
}

// TestRetryAfter: the server's wish is kept, and a wish beyond the deadline is
// not waited for.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	f.server.Tamper = func(n int, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		if n == 0 {
			w.Header().Set("Retry-After", "1")
			return answerWith(w, 429, "text/plain", "later")
		}
		return false
	}
	began := time.Now()
	got, err := f.open(f.options()).Generate(t.Context(), f.turns(1, policy.Sampling{Temperature: 1}))
	if took := time.Since(began); err != nil || got[0].Failed != nil || got[0].Tries != 2 || took < time.Second {
		t.Errorf("after %s: %+v, %v", took, got, err)
	}
	f.server.Tamper = func(n int, w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		w.Header().Set("Retry-After", time.Now().Add(2*time.Hour).UTC().Format(http.TimeFormat))
		return answerWith(w, 503, "text/plain", "in two hours")
	}
	o := f.options()
	o.Deadline = time.Hour // who waited for it would not come back
	got, err = f.open(o).Generate(t.Context(), f.turns(2, policy.Sampling{Temperature: 1}))
	if err != nil || got[0].Failed == nil || got[1].Failed == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestDeadline: at the task's deadline what has no answer has failed, and what
// has one keeps it.
func TestDeadline(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	f.server.Tamper = func(n int, w http.ResponseWriter, r *http.Request, _ map[string]any) bool {
		return n > 0 && hang(w, r)
	}
	o := f.options()
	o.Deadline, o.Concurrency, o.Timeout = 3*time.Second, 1, time.Hour
	got, err := f.open(o).Generate(t.Context(), f.turns(3, policy.Sampling{Temperature: 1}))
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Failed != nil || got[1].Failed == nil || got[2].Failed == nil {
		t.Errorf("%+v", got)
	}
}

// TestStopIsNotAFailure: a task that is told to stop says so, and nothing else.
func TestStopIsNotAFailure(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	ctx, cancel := context.WithCancel(t.Context())
	f.server.Tamper = func(_ int, w http.ResponseWriter, r *http.Request, _ map[string]any) bool {
		cancel()
		return hang(w, r)
	}
	_, err := f.open(f.options()).Generate(ctx, f.turns(3, policy.Sampling{Temperature: 1}))
	if !errors.Is(err, context.Canceled) || exitcode.Code(err) != exitcode.Stopped {
		t.Errorf("exit code %d: %v", exitcode.Code(err), err)
	}
}

// TestConcurrencyIsBounded: no more requests are under way than was said.
func TestConcurrencyIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	const bound = 3
	var mutex sync.Mutex
	busy, most := 0, 0
	full := make(chan struct{})
	open := sync.OnceFunc(func() { close(full) }) // none is answered before as many are under way as may be
	f.server.Tamper = func(_ int, _ http.ResponseWriter, r *http.Request, _ map[string]any) bool {
		mutex.Lock()
		busy++
		if most = max(most, busy); busy == bound {
			open()
		}
		mutex.Unlock()
		select {
		case <-full:
		case <-r.Context().Done():
		}
		mutex.Lock()
		busy--
		mutex.Unlock()
		return false
	}
	o := f.options()
	o.Concurrency = bound
	if _, err := f.open(o).Generate(t.Context(), f.turns(24, policy.Sampling{Temperature: 1})); err != nil {
		t.Fatal(err)
	}
	if most != bound {
		t.Errorf("%d requests were under way at a time, want %d", most, bound)
	}
}

// TestTLS: a certificate that nobody vouches for, and a server that speaks
// plain HTTP where TLS is expected, are said at once.
func TestTLS(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	secure := httptest.NewUnstartedServer(f.server)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // a client that does not trust it is what is wanted
	secure.StartTLS()
	defer secure.Close()
	for _, url := range []string{secure.URL, strings.Replace(f.url, "http://", "https://", 1)} {
		o := f.options()
		o.URL, o.Ready = url, time.Minute
		_, err := remote.Open(t.Context(), o, nil)
		if exitcode.Code(err) != exitcode.Unavailable {
			t.Errorf("%s: exit code %d: %v", url, exitcode.Code(err), err)
		}
	}
	o := f.options()
	o.URL, o.Transport = secure.URL, secure.Client().Transport
	if _, err := f.open(o).Generate(t.Context(), f.turns(2, policy.Sampling{Temperature: 1})); err != nil {
		t.Errorf("with the certificate's authority known: %v", err)
	}
}

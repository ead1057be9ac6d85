package remote_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
)

// listing is a server that is up and lists one model.
func listing(t *testing.T, body func() (health, code int, models string)) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health, code, models := body()
		switch r.URL.Path {
		case "/health":
			w.WriteHeader(health)
		case "/v1/models":
			answerWith(w, code, "application/json", models)
		default:
			answerWith(w, 200, "application/json", `{"default_generation_settings":{"n_ctx":48}}`)
		}
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestTheServerMustServeTheVersion that the task samples from.
func TestTheServerMustServeTheVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	other := makePolicy(t, filepath.Join(t.TempDir(), "v000003"), 16) // of another run
	for _, c := range []struct {
		name, models, pinned string
		ok                   bool
	}{
		{"by name", `{"data":[{"id":"v000003"}]}`, "", true},
		{"by a path of another machine", `{"data":[{"id":"/mnt/elsewhere/run/policy/v000003"}]}`, "", true},
		{"by its root", `{"data":[{"id":"m","root":"` + f.folder + `"}]}`, "", true},
		{"second of two", `{"data":[{"id":"base"},{"id":"v000003","root":"` + f.folder + `/"}]}`, "", true},
		{"as GGUF", `{"data":[{"id":"/models/v000003.gguf"}]}`, "", true},
		{"an older version", `{"data":[{"id":"v000002","root":"/run/policy/v000002"}]}`, "", false},
		{"a longer name", `{"data":[{"id":"xv000003"}]}`, "", false},
		{"the same version of another run", `{"data":[{"id":"` + other + `"}]}`, "", false},
		{"nothing", `{"data":[]}`, "", false},
		{"not a list", `"v000003"`, "", false},
		{"pinned", `{"data":[{"id":"v000002"},{"id":"any"}]}`, "any", true},
		{"pinned and not there", `{"data":[{"id":"v000003"}]}`, "any", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := f.options()
			o.Model, o.Ready = c.pinned, 120*time.Millisecond
			o.URL = listing(t, func() (int, int, string) { return 200, 200, c.models })
			client, err := remote.Open(t.Context(), o, nil)
			if c.ok {
				if err != nil {
					t.Fatal(err)
				}
				_ = client.Close()
				return
			}
			if exitcode.Code(err) != exitcode.Unavailable || len(exitcode.Hints(err)) == 0 {
				t.Errorf("exit code %d: %v", exitcode.Code(err), err)
			}
		})
	}
	o := f.options()
	o.Ready, o.URL = 0, listing(t, func() (int, int, string) { return 200, 200, `{"data":[{"id":"m","root":"/run/policy/v000002"}]}` })
	_, err := remote.Open(t.Context(), o, nil)
	for _, part := range []string{"serves m (/run/policy/v000002), not v000003"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// TestWaitsUntilReady: while the server loads, and until it serves the version.
func TestWaitsUntilReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.LlamaCpp)
	var looks atomic.Int32
	o := f.options()
	o.URL = listing(t, func() (int, int, string) {
		switch n := looks.Add(1); {
		case n < 3:
			return 503, 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`
		case n < 6:
			return 200, 200, `{"data":[{"id":"v000002"}]}`
		}
		return 404, 200, `{"data":[{"id":"v000003","max_model_len":40}]}` // a server without /health
	})
	client := f.open(o)
	if got := client.Longest(); got != 40 { // 64 by the policy, 48 by the context of llama.cpp
		t.Errorf("the longest sequence is %d, want the server's 40", got)
	}
	o.URL = listing(t, func() (int, int, string) { return 503, 503, "" })
	o.Ready = 100 * time.Millisecond
	if _, err := remote.Open(t.Context(), o, nil); exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), "503") {
		t.Errorf("never ready: exit code %d: %v", exitcode.Code(err), err)
	}
	o.URL, o.Ready = listing(t, func() (int, int, string) { return 200, 401, `{"error":"Unauthorized"}` }), time.Minute
	if _, err := remote.Open(t.Context(), o, nil); exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(strings.Join(exitcode.Hints(err), " "), "api_key_env") {
		t.Errorf("unauthorized: exit code %d: %v", exitcode.Code(err), err)
	}
	dead := errors.New("it has died")
	o.URL = "http://127.0.0.1:1"
	if _, err := remote.Open(t.Context(), o, func() error { return dead }); !errors.Is(err, dead) {
		t.Errorf("a server that has ended: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	for _, url := range []string{"", "localhost:8000", "ftp://host", "http://", "http://a b", "http://host?x=1"} {
		o := f.options()
		o.URL = url
		if _, err := remote.Open(t.Context(), o, nil); exitcode.Code(err) != exitcode.Usage {
			t.Errorf("%q: exit code %d: %v", url, exitcode.Code(err), err)
		}
	}
	for _, end := range []string{"", "/", "/v1", "/v1/", "\n"} {
		o := f.options()
		o.URL += end
		f.open(o)
	}
}

// TestNobodyThere: no listener, and one that never answers.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mute := "http://" + listener.Addr().String()
	o := f.options()
	o.URL, o.Ready, o.Timeout = mute, 300*time.Millisecond, 100*time.Millisecond
	if _, err := remote.Open(t.Context(), o, nil); exitcode.Code(err) != exitcode.Unavailable || len(exitcode.Hints(err)) == 0 {
		t.Errorf("a mute server: exit code %d: %v", exitcode.Code(err), err)
	}
	_ = listener.Close()
	if _, err := remote.Open(t.Context(), o, nil); exitcode.Code(err) != exitcode.Unavailable || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no server: exit code %d: %v", exitcode.Code(err), err)
	}
}

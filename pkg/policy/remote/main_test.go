package remote_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/backend"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
	"github.com/lathe-rl/lathe/pkg/policy/remote/remotetest"
	"github.com/lathe-rl/lathe/pkg/rng"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" && len(os.Args) > 2 {
		fmt.Fprintln(os.Stderr, serveInstead(role, os.Args[1:]))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// fixture is a policy of random weights on the bytes of text, which stops at a
// few of them, and a server of it.
type fixture struct {
	*testing.T
	folder string
	config policy.Config
	chat   *tokenizer.Chat
	engine *policy.Engine
	server *remotetest.Server
	url    string
}

const maxNewTokens = 12

func newFixture(t *testing.T, dialect string) *fixture {
	t.Helper()
	return fixtureOf(t, dialect, makePolicy(t, filepath.Join(t.TempDir(), "v000003"), 16))
}

func fixtureOf(t *testing.T, dialect, folder string) *fixture {
	t.Helper()
	f := &fixture{T: t, folder: folder}
	var err error
	if f.config, err = checkpoint.LoadConfig(f.folder); err != nil {
		t.Fatal(err)
	}
	if f.chat, err = tokenizer.LoadChat(f.folder); err != nil {
		t.Fatal(err)
	}
	if f.engine, err = backend.Open(f.folder, backend.Options{Backend: backend.CPU, Threads: 1}); err != nil {
		t.Fatal(err)
	}
	f.server = &remotetest.Server{Dialect: dialect, Folders: func() []string { return []string{f.folder} }}
	web := httptest.NewServer(f.server)
	f.url = web.URL
	t.Cleanup(func() {
		web.Close()
		if err := f.server.Close(); err != nil {
			t.Error(err)
		}
		if err := f.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// options are patient in nothing.
func (f *fixture) options() remote.Options {
	return remote.Options{
		URL: f.url, Server: f.server.Dialect, API: remote.Completions, Folder: f.folder,
		Concurrency: 4, Timeout: 20 * time.Second, Retries: 3, Backoff: time.Millisecond, Ready: 5 * time.Second,
		LogProbs: remote.LogProbsRaw, Config: f.config, Tokenizer: f.chat.Tokenizer(),
	}
}

func (f *fixture) open(o remote.Options) *remote.Client {
	f.Helper()
	client, err := remote.Open(f.Context(), o, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = client.Close() })
	return client
}

// turns are n different prompts, each twice.
func (f *fixture) turns(n int, sampling policy.Sampling) []remote.Turn {
	f.Helper()
	turns := make([]remote.Turn, n)
	for i := range turns {
		messages := []shard.Message{{Role: "user", Content: string(rune('a'+i/2)) + "+é="}}
		prompt, _, err := f.chat.Render(messages, true)
		if err != nil {
			f.Fatal(err)
		}
		turns[i] = remote.Turn{Messages: messages, Request: policy.Request{
			Prompt: prompt, MaxNewTokens: maxNewTokens, StopTokens: f.config.EOSTokenIDs, Sampling: sampling,
			Stream: rng.New(7, rng.PurposeTest, 1, string(rune('a'+i/2)), i%2),
		}}
	}
	return turns
}

// local is what our engine says to turns. The server draws what it draws.
func (f *fixture) local(turns []remote.Turn) []policy.Completion {
	f.Helper()
	requests := make([]policy.Request, len(turns))
	streams := map[int64]rng.Stream{}
	for i, turn := range turns {
		requests[i] = turn.Request
		streams[remote.SeedOf(turn.Stream, len(turn.Prompt))] = turn.Stream
	}
	f.server.Stream = func(seed int64) rng.Stream {
		stream, ok := streams[seed]
		if !ok {
			f.Errorf("the server is given the seed %d, which no request has", seed)
		}
		return stream
	}
	completions, err := f.engine.Generate(context.Background(), requests)
	if err != nil {
		f.Fatal(err)
	}
	return completions
}

// makePolicy makes the policy of the fixture. Of its bytes that are no text by
// themselves it says every so many; 1000 says none.
func makePolicy(t *testing.T, folder string, every int) string {
	t.Helper()
	format := tokenizer.ChatFormat{UserPrefix: "<|user|>", AssistantPrefix: "<|assistant|>", AssistantSuffix: "<|end|>"}
	tok, err := tokenizer.NewBytes([]string{"<|user|>", "<|assistant|>", "<|end|>"}, tokenizer.Roles{EOS: "<|end|>"})
	if err != nil {
		t.Fatal(err)
	}
	config := policy.Config{
		Architecture: policy.Llama, VocabSize: tok.Size(), HiddenSize: 16, IntermediateSize: 24, NumHiddenLayers: 2,
		NumAttentionHeads: 2, NumKeyValueHeads: 1, HeadDim: 8, MaxPositionEmbeddings: 64,
		RMSNormEps: 1e-6, RopeTheta: 1e4, TieWordEmbeddings: false, BOSTokenID: -1, EOSTokenIDs: []int32{258},
	}
	for id := int32(0); id < 256; id += 17 {
		config.EOSTokenIDs = append(config.EOSTokenIDs, id)
	}
	weights, err := policy.Init(config, 11)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range weights {
		if w.Name != "lm_head.weight" {
			continue
		}
		for id := range config.VocabSize {
			// Sharper than at initialization, so that tokens differ in
			// probability, and few bytes that are no text by themselves.
			factor := float32(40)
			if id > 127 && id < 256 && id%every != 3 {
				factor = 0
			}
			for j := range config.HiddenSize {
				w.Data[id*config.HiddenSize+j] *= factor
			}
		}
	}
	if err := mkdir(folder); err != nil {
		t.Fatal(err)
	}
	if err := tok.Save(folder, format, config.MaxPositionEmbeddings); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Save(folder, config, weights); err != nil {
		t.Fatal(err)
	}
	return folder
}

// answerWith answers a request with a status and a text.
func answerWith(w http.ResponseWriter, code int, kind, text string) bool {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text))
	return true
}

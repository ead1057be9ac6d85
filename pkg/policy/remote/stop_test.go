package remote_test

import (
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
)

// TestStopStrings: a response ends with the token that completes a stop
// string, as it does in an engine; a server that keeps that token is told of
// the strings and samples no further.
func TestStopStrings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server, api string
		told        bool
	}{
		{remote.VLLM, remote.Completions, true},
		{remote.VLLM, remote.Chat, true},
		{remote.SGLang, remote.Completions, true},
		{remote.LlamaCpp, remote.Completions, false},
	} {
		t.Run(c.server+"/"+c.api, func(t *testing.T) {
			f := fixtureOf(t, c.server, makePolicy(t, filepath.Join(t.TempDir(), "v000003"), 1000))
			turns := f.turns(12, policy.Sampling{Temperature: 1})
			// What is said most of all, so that many responses have it.
			var said strings.Builder
			for _, completion := range f.local(turns) {
				said.WriteString(f.chat.Tokenizer().Decode(completion.TokenIDs))
			}
			stop := mostCommonLetter(said.String())
			for i := range turns {
				turns[i].StopStrings = []string{stop, "never said"}
				turns[i].Watch = func(response []int32) bool {
					return strings.Contains(f.chat.Tokenizer().Decode(response), stop)
				}
			}
			want := f.local(turns)
			var mutex sync.Mutex // requests are answered at once
			var generated int
			f.server.Tamper = func(_ int, _ http.ResponseWriter, _ *http.Request, answer map[string]any) bool {
				mutex.Lock()
				defer mutex.Unlock()
				generated += answer["usage"].(map[string]any)["completion_tokens"].(int)
				return false
			}
			o := f.options()
			o.API = c.api
			replies, err := f.open(o).Generate(t.Context(), turns)
			if err != nil {
				t.Fatal(err)
			}
			kept, matched := 0, 0
			for i, reply := range replies {
				if reply.Failed != nil {
					t.Fatalf("turn %d: %v", i, reply.Failed)
				}
				if !reply.Retokenized && !reflect.DeepEqual(reply.Completion, want[i]) {
					t.Errorf("turn %d: %+v, the engine says %+v", i, reply.Completion, want[i])
				}
				kept += len(reply.TokenIDs)
				if strings.Contains(f.chat.Tokenizer().Decode(reply.TokenIDs), stop) {
					matched++
				}
			}
			if matched < 3 {
				t.Errorf("%d of %d responses have the stop string %q: the test shows too little", matched, len(replies), stop)
			}
			if c.told != (generated == kept) {
				t.Errorf("the server sampled %d tokens, %d are kept; it was told of stop strings: %v", generated, kept, c.told)
			}
		})
	}
}

// mostCommonLetter is the ASCII letter or digit that is most often in a text.
func mostCommonLetter(text string) string {
	best, most := "", 0
	for letter := byte('0'); letter <= 'z'; letter++ {
		if n := strings.Count(text, string(letter)); n > most {
			best, most = string(letter), n
		}
	}
	return best
}

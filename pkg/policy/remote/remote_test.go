package remote_test

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/policy/remote"
)

func mkdir(folder string) error { return os.MkdirAll(folder, 0o777) }

// TestSameAsTheEngine: what comes over the wire is what the engine says, token
// by token and log-probability by log-probability, to the last bit. The server
// is our engine and draws the numbers that the engine draws.
func TestSameAsTheEngine(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{remote.VLLM, remote.SGLang, remote.LlamaCpp} {
		for _, api := range []string{remote.Completions, remote.Chat} {
			t.Run(dialect+" "+api, func(t *testing.T) {
				f := newFixture(t, dialect)
				o := f.options()
				o.API = api
				client := f.open(o)
				stops, cuts, whole := 0, 0, 0
				for _, sampling := range []policy.Sampling{{}, {Temperature: 1}} {
					turns := f.turns(24, sampling)
					want := f.local(turns)
					got, err := client.Generate(t.Context(), turns)
					if err != nil {
						t.Fatal(err)
					}
					for i, reply := range got {
						switch {
						case reply.Failed != nil:
							t.Fatalf("turn %d: %v", i, reply.Failed)
						case reply.Retokenized:
							// llama.cpp says no ids of a token that ends inside a character.
							if dialect != remote.LlamaCpp {
								t.Errorf("turn %d is retokenized", i)
							}
							continue
						}
						whole++
						if diff := cmp.Diff(want[i], reply.Completion); diff != "" {
							t.Errorf("turn %d, temperature %g (-engine +server):\n%s", i, sampling.Temperature, diff)
						}
						if reply.FinishReason == policy.FinishStop {
							stops++
						} else {
							cuts++
						}
					}
				}
				if stops == 0 || cuts == 0 || whole < 10 {
					t.Errorf("%d responses are stopped, %d cut off, %d have ids: the test shows little", stops, cuts, whole)
				}
			})
		}
	}
}

// TestTextAlone: a server that gives no token ids gives text, which is
// retokenized and said to be, without log-probabilities.
func TestTextAlone(t *testing.T) {
	t.Parallel()
	for _, api := range []string{remote.Completions, remote.Chat} {
		f := newFixture(t, remote.OpenAI)
		o := f.options()
		o.API = api
		client := f.open(o)
		turns := f.turns(16, policy.Sampling{Temperature: 1})
		want := f.local(turns)
		got, err := client.Generate(t.Context(), turns)
		if err != nil {
			t.Fatal(err)
		}
		same := 0
		for i, reply := range got {
			if reply.Failed != nil || !reply.Retokenized || reply.LogProbs != nil {
				t.Fatalf("turn %d: %+v", i, reply)
			}
			n := len(reply.TokenIDs) - 1 // which of the stop tokens it was is not said
			if len(want[i].TokenIDs) == n+1 && slices.Equal(reply.TokenIDs[:n], want[i].TokenIDs[:n]) {
				same++
			}
			if len(reply.TokenIDs) > maxNewTokens {
				t.Errorf("turn %d has %d tokens", i, len(reply.TokenIDs))
			}
			if reply.FinishReason == policy.FinishStop && !slices.Contains(f.config.EOSTokenIDs, reply.TokenIDs[len(reply.TokenIDs)-1]) {
				t.Errorf("turn %d stops at %d", i, reply.TokenIDs[len(reply.TokenIDs)-1])
			}
		}
		// The others hold bytes that are no text, which JSON cannot carry.
		if same < len(got)/4 {
			t.Errorf("%s: %d of %d responses are the tokens that were sampled", api, same, len(got))
		}
	}
}

// TestLogProbsOfAnotherDistribution are not taken for those of ours.
func TestLogProbsOfAnotherDistribution(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	for _, c := range []struct {
		logProbs string
		sampling policy.Sampling
		want     bool
	}{
		{remote.LogProbsRaw, policy.Sampling{Temperature: 1}, true},
		{remote.LogProbsRaw, policy.Sampling{Temperature: 1, TopP: 1}, true},
		{remote.LogProbsRaw, policy.Sampling{}, true},
		{remote.LogProbsRaw, policy.Sampling{Temperature: 0.7}, false},
		{remote.LogProbsRaw, policy.Sampling{Temperature: 1, TopK: 5}, false},
		{remote.LogProbsRaw, policy.Sampling{Temperature: 1, TopP: 0.9}, false},
		{remote.LogProbsProcessed, policy.Sampling{Temperature: 0.7, TopK: 5, TopP: 0.9}, true},
		{remote.LogProbsNone, policy.Sampling{Temperature: 1}, false},
	} {
		o := f.options()
		o.LogProbs = c.logProbs
		turns := f.turns(4, c.sampling)
		want := f.local(turns)
		got, err := f.open(o).Generate(t.Context(), turns)
		if err != nil {
			t.Fatal(err)
		}
		for i, reply := range got {
			if reply.Failed != nil || (reply.LogProbs != nil) != c.want {
				t.Errorf("%s at %+v: %+v, want log-probabilities: %v", c.logProbs, c.sampling, reply, c.want)
			}
			if !slices.Equal(reply.TokenIDs, want[i].TokenIDs) || c.want && !slices.Equal(reply.LogProbs, want[i].LogProbs) {
				t.Errorf("%s at %+v: %+v, want %+v", c.logProbs, c.sampling, reply, want[i])
			}
		}
	}
}

// TestWatch: a response that a watcher ends is cut where an engine would have
// stopped.
func TestWatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	turns := f.turns(16, policy.Sampling{Temperature: 1})
	for i := range turns {
		turns[i].Watch = func(response []int32) bool { return len(response) >= 3 && response[len(response)-1]%2 == 1 }
	}
	want := f.local(turns)
	got, err := f.open(f.options()).Generate(t.Context(), turns)
	if err != nil {
		t.Fatal(err)
	}
	watched := 0
	for i, reply := range got {
		if diff := cmp.Diff(want[i], reply.Completion); diff != "" {
			t.Errorf("turn %d (-engine +server):\n%s", i, diff)
		}
		if last := reply.TokenIDs[len(reply.TokenIDs)-1]; reply.FinishReason == policy.FinishStop && !slices.Contains(f.config.EOSTokenIDs, last) {
			watched++
		}
	}
	if watched == 0 {
		t.Error("no response was ended by its watcher")
	}
}

// TestLongestSequence: a prompt that fills the model gets no answer and no
// request, one that nearly does gets a short one.
func TestLongestSequence(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	client := f.open(f.options())
	turns := f.turns(2, policy.Sampling{Temperature: 1})
	long := make([]int32, f.config.MaxPositionEmbeddings)
	for i := range long {
		long[i] = 'x'
	}
	turns[0].Prompt, turns[1].Prompt = long, long[:len(long)-2]
	turns[0].StopTokens, turns[1].StopTokens = []int32{258}, []int32{258}
	f.config.EOSTokenIDs = nil
	got, err := client.Generate(t.Context(), turns)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Tries != 0 || len(got[0].TokenIDs) != 0 || got[0].FinishReason != policy.FinishLength {
		t.Errorf("a full sequence: %+v", got[0])
	}
	if got[1].Failed != nil || len(got[1].TokenIDs) > 2 {
		t.Errorf("room for two: %+v", got[1])
	}
	if got := client.Longest(); got != f.config.MaxPositionEmbeddings {
		t.Errorf("the longest sequence is %d", got)
	}
}

// TestRetriesChangeNoResult: the same replies whether requests go through at
// once or after failures, and in any company.
func TestRetriesChangeNoResult(t *testing.T) {
	t.Parallel()
	f := newFixture(t, remote.VLLM)
	turns := f.turns(12, policy.Sampling{Temperature: 1})
	want, err := f.open(f.options()).Generate(t.Context(), turns)
	if err != nil {
		t.Fatal(err)
	}
	f.server.Tamper = everySecond(func(w responseWriter) { answerWith(w, 503, "text/plain", "busy") })
	o := f.options()
	o.Concurrency, o.Retries = 1, 50
	got, err := f.open(o).Generate(t.Context(), turns)
	if err != nil {
		t.Fatal(err)
	}
	retried := false
	for i := range got {
		retried = retried || got[i].Tries > 1
		got[i].Tries, want[i].Tries = 0, 0
	}
	if !retried {
		t.Error("nothing was tried again")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-at once +after failures):\n%s", diff)
	}
}

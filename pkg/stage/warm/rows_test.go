package warm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shares"
	"github.com/lathe-rl/lathe/pkg/supervised"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// speller is a chat of one token for each message and one before it.
type speller struct{ chat.Chat }

func (speller) Demonstrate(conversation []shard.Message) (ids []int32, mask []bool, err error) {
	for i, m := range conversation {
		answer := m.Role == "assistant"
		ids, mask = append(ids, int32(2*i), int32(2*i+1), int32(2*i+1)), append(mask, false, answer, answer)
	}
	return ids, mask, nil
}

// Which tokens are learned from: of three tokens a message, the last two are its content.
func TestLearn(t *testing.T) {
	t.Parallel()
	turns := func(roles string) (messages []shard.Message) {
		for _, r := range roles {
			messages = append(messages, shard.Message{Role: map[rune]string{'u': "user", 'a': "assistant"}[r]})
		}
		return messages
	}
	for _, c := range []struct {
		learn, roles string
		given        int
		want         []int // tokens
	}{
		{supervised.Completion, "uaua", 0, []int{4, 5, 10, 11}},
		{supervised.Completion, "uaua", 3, []int{10, 11}},
		{supervised.Completion, "aua", 1, []int{7, 8}},
		{supervised.Completion, "uauaua", 3, []int{10, 11, 16, 17}},
		{supervised.Last, "uaua", 0, []int{10, 11}},
		{supervised.Last, "uaa", 0, []int{7, 8}},
		{supervised.Last, "uauaua", 3, []int{16, 17}},
		{supervised.All, "ua", 1, []int{1, 2, 3, 4, 5}},
	} {
		r := fileRows{Settings: supervised.Settings{Learn: c.learn}, chat: speller{}, most: 100}
		_, mask, err := r.tokens(supervised.Example{Messages: turns(c.roles), Given: c.given})
		var got []int
		for i, wanted := range mask {
			if wanted {
				got = append(got, i)
			}
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s of %s with %d given: %v, %v, want %v", c.learn, c.roles, c.given, got, err, c.want)
		}
	}
	r := fileRows{Settings: supervised.Settings{Learn: supervised.Last}, chat: speller{}, most: 5}
	if _, _, err := r.tokens(supervised.Example{File: "f.jsonl", Row: 7, Messages: turns("ua")}); exitcode.Code(err) != exitcode.Data || err.Error() != "f.jsonl:7: the row has 6 tokens, and the policy takes 5" {
		t.Errorf("a row that does not fit: %v", err)
	}
}

// Passes over rows end a warm start: 2 epochs of 10 rows in batches of 8 are 3 steps.
func TestEpochs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		epochs              float64
		limit, batch, steps int
	}{{0, 50, 8, 50}, {2, 50, 8, 3}, {2, 2, 8, 2}, {0.5, 50, 8, 1}, {1, 50, 10, 1}} {
		r := fileRows{Settings: supervised.Settings{Epochs: c.epochs}, Data: supervised.Data{Train: make([]supervised.Example, 10)}}
		if got := r.steps(c.limit, c.batch); got != c.steps {
			t.Errorf("%s: %d steps", fmt.Sprint(c), got)
		}
	}
}

// A row that asks a held-out problem is not learned from: the words of a long question
// anywhere in what the user says, those of a short one alone.
func TestLeaveOut(t *testing.T) {
	t.Parallel()
	const long = "Each pack of dvds costs 76 dollars. How much are two?"
	says := func(role, text string) supervised.Example {
		return supervised.Example{Messages: []shard.Message{{Role: role, Content: text}, {Role: "assistant", Content: long}}}
	}
	r := fileRows{Data: supervised.Data{Train: []supervised.Example{
		says("user", "Solve: Each pack of dvds\ncosts 76  dollars. How much are two? Think."), says("user", " 1+1= "), says("user", "11+1="), says("system", long), says("user", long[:30]),
	}}}
	r.leaveOut([]env.Task{{Question: long}, {Question: "1+1="}})
	if len(r.Train) != 3 || r.held != 2 || r.Train[0].Messages[0].Content != "11+1=" {
		t.Errorf("%d left out: %v stay", r.held, r.Train)
	}
}

// namer is a chat whose tokens are the ids of the tasks that are demonstrated.
type namer struct{ chat.Chat }

func (namer) Demonstrate(conversation []shard.Message) (ids []int32, mask []bool, err error) {
	return []int32{int32(conversation[0].Content[0])}, []bool{true}, nil
}

// Of several environments each has its share of the demonstrations over steps that follow each
// other: of 2:1:1 in steps of 3, twelve are 6, 3 and 3, in whatever step one begins.
func TestSharesOfSteps(t *testing.T) {
	t.Parallel()
	d := demonstrator{Settings: Settings{Seed: 7, WarmStart: recipe.WarmStart{Batch: 3}}, environment: asked{}, shares: shares.New([]float64{2, 1, 1}), chat: namer{}}
	for _, id := range []string{"a", "b", "c"} {
		d.tasks = append(d.tasks, []env.Task{{ID: id}})
	}
	for first := range 5 {
		counts := map[int32]int{}
		for step := first; step < first+4; step++ {
			b, err := d.batch(step)
			if err != nil || b.targets != 3 || b.tokens != 3 || len(b.sequences) != 3 {
				t.Fatalf("step %d: %d targets in %d tokens of %d sequences, %v", step, b.targets, b.tokens, len(b.sequences), err)
			}
			for _, s := range b.sequences {
				counts[s.TokenIDs[0]]++
			}
		}
		if counts['a'] != 6 || counts['b'] != 3 || counts['c'] != 3 {
			t.Errorf("steps %d to %d demonstrate %v", first, first+3, counts)
		}
	}
}

// ofSet is an environment that is asked for its tasks alone.
type ofSet struct {
	env.Env
	of *env.TaskSet
}

func (o ofSet) Set() *env.TaskSet { return o.of }

// A tokenizer is trained on the environment's own texts, or on the problems for want of any; it
// ends a response with the first special token after the assistant's message.
func TestNewTokenizer(t *testing.T) {
	t.Parallel()
	set := env.NewTaskSet("e")
	set.Add(env.Task{ID: "t", Question: "q", Answer: "a"}, env.Facts{Split: env.Train})
	environment := ofSet{of: set}
	for _, c := range []struct{ own, want []string }{{nil, []string{"q", "a"}}, {[]string{}, []string{"q", "a"}}, {[]string{"o"}, []string{"o"}}} {
		if set.Texts = nil; c.own != nil {
			set.Texts = func() []string { return c.own }
		}
		if got := trainingTexts(environment); !slices.Equal(got, c.want) {
			t.Errorf("own texts %q: %q, want %q", c.own, got, c.want)
		}
	}
	p := recipe.Policy{New: &recipe.NewPolicy{Tokenizer: "bytes"}}
	for suffix, want := range map[string]string{"<|end|>": "<|end|>", "<|end|><|next|>": "<|end|>", "\n": ""} {
		tok, err := newTokenizer(p, environment, tokenizer.ChatFormat{AssistantPrefix: "<|a|>", AssistantSuffix: suffix})
		if err != nil || tok.Roles().EOS != want || tok.Roles().Pad != want {
			t.Errorf("suffix %q: roles %+v, %v", suffix, tok.Roles(), err)
		}
	}
}

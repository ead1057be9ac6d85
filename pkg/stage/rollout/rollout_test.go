package rollout_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage"
	"github.com/lathe-rl/lathe/pkg/stage/internal/stagetest"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

func sample(r *stagetest.Rig, plan string, first, last int, name string) []shard.Rollout {
	r.Helper()
	_, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), r.Env, rollout.Inputs{
		Plan: plan, FirstRow: first, LastRow: last, PolicyFolder: r.Policy(), PolicyVersion: 3, Iteration: 1, Of: 1, Output: r.Path(name),
	})
	r.Check(err)
	return stagetest.Read[shard.Rollout](r, r.Path(name))
}

// TestEpisodesRenderAsChats: the tokens of an episode are those that the chat
// format gives for its conversation, the policy's own are marked, and only
// they have log-probabilities. It holds turn after turn.
func TestEpisodesRenderAsChats(t *testing.T) {
	t.Parallel()
	for _, turns := range []int{1, 2, 3} {
		r := stagetest.New(t, "env.prompts.refine={question}={previous_response};", fmt.Sprintf("env.max_turns=%d", turns))
		plan, instances := r.Plan(12)
		rows := sample(r, plan, 0, len(instances), "rollout.parquet")
		format, err := chat.Load(r.Policy(), time.Time{})
		r.Check(err)
		whole := 0
		for _, row := range rows {
			if len(row.TokenIDs) != len(row.LossMask) || len(row.TokenIDs) != len(row.LogProbs) {
				t.Fatalf("%d tokens, %d marks, %d log-probabilities", len(row.TokenIDs), len(row.LossMask), len(row.LogProbs))
			}
			spoken := 0
			for i, own := range row.LossMask {
				if own {
					spoken++
				}
				if own != (row.LogProbs[i] < 0) {
					t.Errorf("token %d: the policy's own %v, log-probability %g", i, own, row.LogProbs[i])
				}
			}
			if int(row.ResponseTokens) != spoken || slices.Contains(row.LossMask[:row.PromptTokens], true) || !row.LossMask[row.PromptTokens] {
				t.Errorf("%d prompt and %d response tokens do not fit the mask %v", row.PromptTokens, row.ResponseTokens, row.LossMask)
			}
			if len(row.Messages) != 2*int(row.Turns) || int(row.Turns) > turns {
				t.Errorf("%d turns of at most %d make %d messages", row.Turns, turns, len(row.Messages))
			}
			if row.FinishReason != string(policy.FinishStop) {
				continue // cut off: its end is not that of a whole message
			}
			if slices.ContainsFunc(row.Messages, func(m shard.Message) bool { return strings.Contains(m.Content, "<|") }) {
				continue // the policy itself said a special token: as text it is spelled out
			}
			if slices.ContainsFunc(row.Messages, func(m shard.Message) bool { return strings.ContainsRune(m.Content, utf8.RuneError) }) {
				continue // it said bytes that are no text
			}
			ids, mask, err := format.Demonstrate(row.Messages)
			r.Check(err)
			// Nothing follows the stop token of the last message.
			end := len(mask)
			for !mask[end-1] {
				end--
			}
			if diff := cmp.Diff(ids[:end], row.TokenIDs); diff != "" {
				t.Errorf("tokens (-rendered +sampled):\n%s", diff)
			}
			if diff := cmp.Diff(mask[:end], row.LossMask); diff != "" {
				t.Errorf("mask (-rendered +sampled):\n%s", diff)
			}
			if int(row.Turns) == turns {
				whole++
			}
		}
		if whole == 0 {
			t.Errorf("no episode of %d turns came to its end: the test shows nothing", turns)
		}
	}
}

// TestMessagesAreText: a policy of random bytes says much that is not UTF-8;
// its messages are all the same, as other readers of the rows demand of text.
func TestMessagesAreText(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "env.prompts.refine={question}={previous_response};", "env.max_turns=2")
	plan, instances := r.Plan(12)
	format, err := chat.Load(r.Policy(), time.Time{})
	r.Check(err)
	replaced := 0
	for i, row := range sample(r, plan, 0, len(instances), "rollout.parquet") {
		for _, m := range row.Messages {
			if !utf8.ValidString(m.Content) {
				t.Errorf("row %d: the message %q is not UTF-8", i, m.Content)
			}
		}
		if !utf8.ValidString(format.Tokenizer().Decode(row.TokenIDs)) {
			replaced++
		}
	}
	if replaced == 0 {
		t.Error("every response is UTF-8: the test shows nothing")
	}
}

// TestJinjaFolders: a folder without a house format is sampled by its Jinja
// template, which says the same here: so do the rows.
func TestJinjaFolders(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "env.prompts.refine={question}={previous_response};", "env.max_turns=2")
	r.Job.Plain = true // the folder is not sealed
	plan, _ := r.Plan(6)
	foreign := r.Path("foreign")
	r.Check(os.CopyFS(foreign, os.DirFS(r.Policy())))
	r.Check(os.Remove(filepath.Join(foreign, tokenizer.ChatFile)))
	var rows [2][]shard.Rollout
	for i, folder := range []string{r.Policy(), foreign} {
		output := r.Path(fmt.Sprintf("rollout-%d.parquet", i))
		_, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), r.Env, rollout.Inputs{Plan: plan, LastRow: 6, PolicyFolder: folder, Of: 1, Output: output})
		r.Check(err)
		rows[i] = stagetest.Read[shard.Rollout](r, output)
		for k := range rows[i] {
			rows[i][k].GenerateSeconds = 0
		}
	}
	if diff := cmp.Diff(rows[0], rows[1]); diff != "" {
		t.Errorf("rows (-house format +Jinja):\n%s", diff)
	}
	if !slices.ContainsFunc(rows[1], func(row shard.Rollout) bool { return row.Turns == 2 }) {
		t.Error("no episode went on: the test shows nothing")
	}
}

// TestCutsDoNotShow: a row depends on its instance, not on the shard that it
// was sampled in, nor on threads.
func TestCutsDoNotShow(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "env.prompts.refine={question}={previous_response};", "env.max_turns=2")
	plan, instances := r.Plan(9)
	whole := sample(r, plan, 0, 9, "whole.parquet")
	r.Job.Threads = 2
	var cut []shard.Rollout
	for _, c := range [][2]int{{0, 1}, {1, 1}, {1, 6}, {6, 9}} {
		cut = append(cut, sample(r, plan, c[0], c[1], fmt.Sprintf("cut-%d-%d.parquet", c[0], c[1]))...)
	}
	for _, rows := range [][]shard.Rollout{whole, cut} {
		for i := range rows {
			rows[i].GenerateSeconds = 0
		}
	}
	if diff := cmp.Diff(whole, cut); diff != "" {
		t.Errorf("rows (-whole +cut):\n%s", diff)
	}
	group := r.Recipe.Rollout.Group
	for i, row := range whole {
		if row.InstanceID != instances[i/group].InstanceID || int(row.Sample) != i%group || row.PolicyVersion != 3 {
			t.Errorf("row %d is instance %s sample %d of version %d", i, row.InstanceID, row.Sample, row.PolicyVersion)
		}
	}
	if slices.Equal(whole[0].TokenIDs, whole[1].TokenIDs) && slices.Equal(whole[1].TokenIDs, whole[2].TokenIDs) && slices.Equal(whole[2].TokenIDs, whole[3].TokenIDs) {
		t.Error("four samples of one instance are all the same")
	}
}

func TestRowsOutOfThePlanAreRefused(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t)
	plan, rows := r.Plan(2)
	in := rollout.Inputs{Plan: plan, LastRow: 3, PolicyFolder: r.Policy(), Output: r.Path("rollout.parquet")}
	if _, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), r.Env, in); exitcode.Code(err) != exitcode.Data {
		t.Errorf("row 3 of 2: %v", err)
	}
	rows[1].TaskID = "nowhere"
	other := r.Path("other.parquet")
	r.Check(stagetest.Write(other, rows))
	in.Plan, in.LastRow = other, 2
	if _, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), r.Env, in); exitcode.Code(err) != exitcode.Data {
		t.Errorf("a task that is not there: %v", err)
	}
}

// TestStopStrings: with stop strings an episode is what it is without, up to
// the token that completes one; the text ends before it or with it, the tokens
// with it, and a message that goes on is closed like one that was cut off.
func TestStopStrings(t *testing.T) {
	t.Parallel()
	const stop = "1"
	for _, include := range []bool{false, true} {
		plain := stagetest.New(t)
		plan, instances := plain.Plan(12)
		free := sample(plain, plan, 0, len(instances), "free.parquet")
		r := stagetest.New(t, `rollout.stop=["never said", "`+stop+`"]`, fmt.Sprintf("rollout.include_stop=%v", include))
		stopped := sample(r, plan, 0, len(instances), "stopped.parquet")
		chat, err := tokenizer.LoadChat(r.Policy())
		r.Check(err)
		matched := 0
		for i, row := range stopped {
			want := free[i]
			text := want.Messages[1].Content
			before, _, found := strings.Cut(text, stop)
			if !found {
				want.GenerateSeconds, row.GenerateSeconds = 0, 0
				if diff := cmp.Diff(want, row); diff != "" {
					t.Errorf("row %d has no stop string (-without +with):\n%s", i, diff)
				}
				continue
			}
			matched++
			said := row.TokenIDs[row.PromptTokens:]
			if !slices.Equal(said, want.TokenIDs[row.PromptTokens:][:len(said)]) || !slices.Equal(row.LogProbs, want.LogProbs[:len(row.LogProbs)]) {
				t.Errorf("row %d: the tokens before the stop string are not those without", i)
			}
			all, without := chat.Tokenizer().Decode(said), chat.Tokenizer().Decode(said[:len(said)-1])
			if !strings.Contains(all, stop) || strings.Contains(without, stop) {
				t.Errorf("row %d: the response %q does not end with the token that completes the stop string", i, all)
			}
			content := before
			if include {
				content += stop
			}
			if got := row.Messages[1].Content; got != content || row.FinishReason != string(policy.FinishStop) || row.StopString != stop {
				t.Errorf("row %d: text %q, finish reason %s, stop string %q; want the text %q", i, got, row.FinishReason, row.StopString, content)
			}
		}
		if matched == 0 || matched == len(stopped) {
			t.Errorf("%d of %d responses have the stop string: the test shows too little", matched, len(stopped))
		}
	}
}

// TestTurnsAfterStopStrings: the next turn's prompt closes the message as the
// chat format does, and each turn has its own bound.
func TestTurnsAfterStopStrings(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "env.prompts.refine={question}={previous_response};", "env.max_turns=3",
		`rollout.stop=["1", "2", "3", "4", "5"]`, "rollout.max_new_tokens_by_turn=[3, 2]")
	plan, instances := r.Plan(12)
	rows := sample(r, plan, 0, len(instances), "rollout.parquet")
	chat, err := tokenizer.LoadChat(r.Policy())
	r.Check(err)
	closing := chat.CloseResponse(false)
	shown := 0
	for _, row := range rows {
		var said []int // tokens of each turn
		for i, own := range row.LossMask {
			switch {
			case own && !row.LossMask[i-1]:
				said = append(said, 1)
			case own:
				said[len(said)-1]++
			case len(said) > 0 && row.LossMask[i-1] && len(closing) > 0 && row.TokenIDs[i-1] != chat.StopToken():
				if got := row.TokenIDs[i:][:len(closing)]; !slices.Equal(got, closing) {
					t.Errorf("after a stop string comes %v, want %v", got, closing)
				}
				shown++
			}
		}
		for turn, n := range said {
			if bound := []int{3, 2, 2}[turn]; n > bound {
				t.Errorf("turn %d has %d tokens, want at most %d", turn+1, n, bound)
			}
		}
	}
	if shown == 0 {
		t.Error("no turn follows one that a stop string ended: the test shows nothing")
	}
}

// Traces that wait for the score of their first message and go on in the next wave come out
// as those that need not wait, by the same tokens; a wave counts what it adds alone.
func TestWaves(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "rollout.group=3")
	plan, _ := r.Plan(4)
	play := func(name string, wave int, before *stage.WaveRef, environment stagetest.Turns) ([]shard.Rollout, seal.Manifest) {
		m, err := rollout.Run(r.Context(), r.Job, rollout.SettingsOf(r.Recipe), environment, rollout.Inputs{
			Plan: plan, LastRow: 4, PolicyFolder: r.Policy(), PolicyVersion: 3, Iteration: 1, Of: 1, Output: r.Path(name), Wave: wave, Before: before,
		})
		r.Check(err)
		return stagetest.Read[shard.Rollout](r, r.Path(name)), m
	}
	want, whole := play("whole", 0, nil, stagetest.Turns{Env: r.Env, Of: 2})
	waiting := stagetest.Turns{Env: r.Env, Of: 2, Wait: true}
	first, m := play("first", 0, nil, waiting)
	_, err := score.Run(r.Context(), r.Job, r.Recipe.Score, waiting, score.Inputs{Plan: plan, Rollout: r.Path("first"), Iteration: 1, Of: 1, Output: r.Path("scores")})
	r.Check(err)
	second, last := play("second", 1, &stage.WaveRef{Rollout: r.Path("first"), Score: r.Path("scores")}, waiting)
	again := map[shard.TraceName]shard.Rollout{}
	for _, row := range append(first, second...) {
		again[row.Name()] = row
	}
	for _, row := range want {
		got := again[row.Name()]
		if diff := cmp.Diff(row.Messages, got.Messages); diff != "" || !slices.Equal(row.TokenIDs, got.TokenIDs) || !slices.Equal(row.LogProbs, got.LogProbs) || row.Turns != got.Turns || got.Waits != "" && got.Wave == 1 || got.PolicyVersion != 3 {
			t.Errorf("%v of version %d, wave %d, waits %q: messages (-whole +in waves):\n%s", row.Name(), got.PolicyVersion, got.Wave, got.Waits, diff)
		}
	}
	if len(second) == 0 || len(second) != int(m.Metrics["waiting"]) || whole.Metrics["tokens_read_again"] != 0 || last.Metrics["tokens_read_again"] == 0 ||
		m.Metrics["response_tokens"]+last.Metrics["response_tokens"] != whole.Metrics["response_tokens"] || last.PolicyVersion != 3 || len(last.Inputs) != len(m.Inputs)+2 || last.Usage != nil {
		t.Errorf("%d rows in the second wave; metrics of the whole %v, of the waves %v and %v; inputs %v", len(second), whole.Metrics, m.Metrics, last.Metrics, last.Inputs)
	}
}

// TestContextBound: under rollout.max_context_tokens a policy speaks as one whose own
// context is as long, turn after turn.
func TestContextBound(t *testing.T) {
	t.Parallel()
	r := stagetest.New(t, "env.prompts.refine={question}={previous_response};", "env.max_turns=3")
	plan, instances := r.Plan(12)
	var lengths []int
	for _, row := range sample(r, plan, 0, len(instances), "free.parquet") {
		lengths = append(lengths, len(row.TokenIDs))
	}
	slices.Sort(lengths)
	bound := lengths[len(lengths)/2] - 1
	r.Recipe.Rollout.MaxContextTokens = bound
	bounded := sample(r, plan, 0, len(instances), "bounded.parquet")
	r.Recipe.Rollout.MaxContextTokens = 0
	r.LimitContext(bound)
	cut := 0
	for i, want := range sample(r, plan, 0, len(instances), "limited.parquet") {
		got := bounded[i]
		if !slices.Equal(got.TokenIDs, want.TokenIDs) || !slices.Equal(got.LogProbs, want.LogProbs) || got.FinishReason != want.FinishReason || got.Turns != want.Turns {
			t.Errorf("row %d: %d tokens in %d turns, %s; of a policy with that context %d in %d, %s",
				i, len(got.TokenIDs), got.Turns, got.FinishReason, len(want.TokenIDs), want.Turns, want.FinishReason)
		}
		if len(got.TokenIDs) > bound && int(got.PromptTokens) < bound {
			t.Errorf("row %d has %d tokens, above the bound of %d", i, len(got.TokenIDs), bound)
		}
		if got.FinishReason == string(policy.FinishLength) {
			cut++
		}
	}
	if cut == 0 {
		t.Error("no response was cut")
	}
}

package command_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// quiet is a chat template that reads two variables and the date. A variable
// that is false differs from one that is not given.
const quiet = `{%- set own = 'assistant:(quiet)' if enable_thinking is defined and enable_thinking is false else 'assistant:' -%}
{{ strftime_now('%d %b %Y') }};{{ tone }};
{%- for m in messages %}{{ own if m.role == 'assistant' else m.role + ':' }}{{ m.content }}{% if m.role == 'assistant' %}<|end|>{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ own }}{% endif %}`

// What policy.template and policy.template_date give the chat template is in
// every prompt that a run samples from, in training and in evaluations, and in
// the demonstrations of its warm start; lathe policy render renders the same.
func TestTemplateVariables(t *testing.T) {
	folder := t.TempDir()
	policy := filepath.Join(folder, "policy")
	lathe(t, exitcode.OK, "policy", "init", "--recipe", smoke, "--out", policy)
	if err := os.Remove(filepath.Join(policy, tokenizer.ChatFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(policy, "chat_template.jinja"), []byte(quiet), 0o666); err != nil {
		t.Fatal(err)
	}
	settings := func(variables, date string) []string {
		return []string{
			"policy.new=null", "policy.path=" + policy, "policy.template=" + variables, "policy.template_date=" + date,
			"warm_start.steps=1", "warm_start.chunk=1", "schedule.iterations=2", "rollout.prompts=2", "rollout.group=2", "rollout.shards=1",
			"schedule.gradient_units=1", "rollout.max_new_tokens=2", "evaluation.problems=2", "evaluation.samples=1", "evaluation.shards=1",
		}
	}
	dir := filepath.Join(folder, "run")
	lathe(t, exitcode.OK, runArgs(dir, smoke, settings("{enable_thinking: false, tone: dry}", "2026-02-05")...)...)
	run := open(t, dir)
	text, err := tokenizer.Load(policy)
	if err != nil {
		t.Fatal(err)
	}
	var asked bytes.Buffer
	var used []string
	read := func(path string) {
		rows, _, err := shard.Read[shard.Rollout](t.Context(), path, seal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			type message struct {
				Role    string `json:"role"`
				Content string `json:"content"`
			}
			var messages []message
			for _, m := range row.Messages[:row.PromptMessages] {
				messages = append(messages, message(m))
			}
			if err := json.NewEncoder(&asked).Encode(map[string]any{
				"messages": messages, "chat_template_kwargs": map[string]any{"enable_thinking": false, "tone": "dry"},
			}); err != nil {
				t.Fatal(err)
			}
			used = append(used, text.Decode(row.TokenIDs[:row.PromptTokens]))
		}
	}
	for k := 1; k <= 2; k++ {
		read(run.Dir.Rollout(k, 0))
	}
	training := len(used)
	read(run.Dir.Sampled(graph.Node{Stage: graph.StageEvalRollout, Iteration: 2}, 0))
	if training < 8 || len(used) == training {
		t.Fatalf("%d prompts of training and %d of an evaluation", training, len(used)-training)
	}
	for _, prompt := range used {
		if !strings.HasPrefix(prompt, "05 Feb 2026;dry;user:") || !strings.HasSuffix(prompt, "assistant:(quiet)") {
			t.Errorf("a prompt is %q", prompt)
		}
	}
	render := exec.Command("lathe", "policy", "render", "--model", policy, "--date", "2026-02-05", "--add-generation-prompt", "--spell-out")
	render.Stdin = &asked
	lines, err := render.Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
		var rendered struct{ Text string }
		if err := json.Unmarshal([]byte(line), &rendered); err != nil || rendered.Text != used[i] {
			t.Errorf("prompt %d is %q, and lathe policy render makes %q (%v)", i, used[i], rendered.Text, err)
		}
	}
	if e := lathe(t, exitcode.LeftOut, "env", "try", filepath.Join(dir, "recipe.yaml"), "--model", policy); !strings.Contains(e.stdout, "(quiet)") {
		t.Errorf("lathe env try does not show the prompt as it is rendered:\n%s", e.stdout)
	}

	// Other variables make another warm start.
	other := filepath.Join(folder, "other")
	lathe(t, exitcode.OK, runArgs(other, smoke, settings("{tone: wet}", "2026-02-05")...)...)
	if same := essence(t, other); same["policy/v000000"] == essence(t, dir)["policy/v000000"] {
		t.Error("the warm start does not depend on policy.template")
	}

	// A variable that the template never reads, or that is not one to set.
	for variables, want := range map[string]string{"{think: true}": `does not read the variable "think"`, "{messages: x}": `"messages" is not a variable to set`} {
		if e := lathe(t, exitcode.Data, runArgs(filepath.Join(t.TempDir(), "bad"), smoke, settings(variables, "")...)...); !strings.Contains(e.stderr, want) {
			t.Errorf("%s: %s", variables, e.stderr)
		}
	}
}

package chat

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/cputime"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// folder makes a model folder with the tokenizer of testdata/model and files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	raw := must.Get(os.ReadFile(filepath.Join("testdata", "model", tokenizer.TokenizerFile)))(t)
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(content), 0o644))
	}
	write(tokenizer.TokenizerFile, string(raw))
	for name, content := range files {
		write(name, content)
	}
	return dir
}

const eos = `{"eos_token_id": 700}`

func TestLoad(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		text  string
		stops string
	}{
		"a text in the configuration": {map[string]string{"tokenizer_config.json": `{"chat_template": "{{ bos_token }}c{{ messages[0].content }}", "bos_token": "<|im_start|>", "model_max_length": 1000000000000000019884624838656}`, "config.json": eos}, "<|im_start|>cq", "<|endoftext|>"},
		"special tokens in the map beside the configuration": {
			map[string]string{
				"tokenizer_config.json":   `{"chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}", "eos_token": "<|im_end|>"}`,
				"special_tokens_map.json": `{"bos_token": "<|im_start|>", "eos_token": {"content": "<|eot_id|>"}}`, "config.json": eos,
			},
			"<|im_start|>q<|eot_id|>", "<|endoftext|><|eot_id|>",
		},
		"named in the configuration":           {map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}`, "config.json": eos}, "d", "<|endoftext|>"},
		"a file goes before the configuration": {map[string]string{"tokenizer_config.json": `{"chat_template": "c"}`, "chat_template.jinja": "f{{ eos_token }}", "config.json": eos}, "f", "<|endoftext|>"},
		"a folder of templates":                {map[string]string{"additional_chat_templates/default.jinja": "folder", "additional_chat_templates/rag.jinja": "r", "additional_chat_templates/notes.txt": "{{", "config.json": eos}, "folder", "<|endoftext|>"},
		"the house format goes before all":     {map[string]string{"lathe_chat.json": `{"user_prefix": "house ", "assistant_suffix": "<|im_end|>"}`, "chat_template.jinja": "{% broken", "config.json": eos}, "house q", "<|im_end|>"},
		"stop tokens of all files": {
			map[string]string{
				"chat_template.jinja": "{% for m in messages %}{{ m.content }}<|eot_id|>{% endfor %}", "config.json": `{"eos_token_id": 702}`,
				"generation_config.json": `{"eos_token_id": [701, 702]}`, "tokenizer_config.json": `{"eos_token": {"content": "<|end_of_text|>"}}`,
			},
			"q<|eot_id|>", "<|im_start|><|im_end|><|end_of_text|><|eot_id|>",
		},
		"a token that is null": {map[string]string{"tokenizer_config.json": `{"chat_template": "{{ eos_token is defined }}", "eos_token": null}`, "config.json": eos}, "False", "<|endoftext|>"},
	} {
		t.Run(name, func(t *testing.T) {
			c := must.Get(Load(folder(t, test.files), time.Time{}))(t)
			r := must.Get(c.Render(FromMessages([]shard.Message{{Role: "user", Content: "q"}}), RenderOptions{}))(t)
			if diff := cmp.Diff(test.text, r.Text); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.stops, c.Tokenizer().Decode(c.StopTokens())); diff != "" {
				t.Errorf("stop tokens (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDate(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"chat_template.jinja": "{{ strftime_now('%d %b %Y') if strftime_now is defined else 'no day' }}", "config.json": eos})
	for want, date := range map[string]time.Time{"no day": {}, "05 Feb 2026": time.Date(2026, 2, 5, 0, 0, 0, 0, time.UTC)} {
		c := must.Get(Load(dir, date))(t)
		if r, err := c.Render(FromMessages([]shard.Message{{Role: "user"}}), RenderOptions{}); err != nil || r.Text != want {
			t.Errorf("rendered %q (%v), want %q", r.Text, err, want)
		}
	}
	// SmolLM3 and Granite do not ask whether there is one.
	dir = folder(t, map[string]string{"chat_template.jinja": "{{ strftime_now('%d %b %Y') }}", "config.json": eos})
	_, err := must.Get(Load(dir, time.Time{}))(t).Render(FromMessages([]shard.Message{{Role: "user"}}), RenderOptions{})
	if hints := exitcode.Hints(err); len(hints) != 1 || !strings.Contains(hints[0], "policy.template_date") {
		t.Errorf("%v, with the hints %q", err, hints)
	}
}

// hostileFolders are model folders that are damaged or mean harm: what is in
// them, and what the error says beside the name of the file.
var hostileFolders = map[string]struct {
	file, content string
	want          string
}{
	"includes itself":         {TemplateFile, "{% include 'chat_template.jinja' %}", "stands alone"},
	"imports itself":          {TemplateFile, "{% import 'chat_template.jinja' as t %}", "stands alone"},
	"extends itself":          {TemplateFile, "{% extends 'chat_template.jinja' %}", "stands alone"},
	"loops for ever":          {TemplateFile, "{% for i in range(10**12) %}x{% endfor %}", "at most 100000"},
	"loops in loops":          {TemplateFile, "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "budget of steps"},
	"macro calls itself":      {TemplateFile, "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nests deeper"},
	"a gigabyte of text":      {TemplateFile, "{{ 'a' * 10**9 }}", "budget of bytes"},
	"a gigabyte by center":    {TemplateFile, "{{ messages[0].content|center(10**9) }}", "budget of bytes"},
	"doubles the message":     {TemplateFile, "{% set ns = namespace(x=messages[0].content) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "budget of bytes"},
	"deep brackets":           {TemplateFile, "{{ " + strings.Repeat("(", 300_000) + "1" + strings.Repeat(")", 300_000) + " }}", "nest deeper"},
	"syntax error":            {TemplateFile, "line one\n{% if %}", "line 2: "},
	"unknown filter":          {TemplateFile, "{{ messages|nonesuch }}", `no filter "nonesuch"`},
	"raises":                  {TemplateFile, "{{ raise_exception('never') }}", "never"},
	"changes the messages":    {TemplateFile, "{{ messages.append(messages[0]) }}", "undefined"},
	"changes a message":       {TemplateFile, "{% set messages[0] = 1 %}", "line 1: "},
	"asks for the time":       {TemplateFile, "{{ strftime_now('%Y') }}", "undefined"},
	"reaches for the system":  {TemplateFile, "{{ ''.__class__.__mro__[1].__subclasses__() }}", "undefined"},
	"two megabytes":           {TemplateFile, strings.Repeat("a", 2<<20), "2097152 bytes"},
	"not UTF-8":               {TemplateFile, "\xff", "not UTF-8"},
	"a template that is 5":    {tokenizer.ConfigFile, `{"chat_template": 5}`, "neither a text nor a list"},
	"an entry without a name": {tokenizer.ConfigFile, `{"chat_template": [{"template": "x"}]}`, "entry 0 lacks"},
	"a name twice":            {tokenizer.ConfigFile, `{"chat_template": [{"name": "a", "template": "x"}, {"name": "a", "template": "x"}]}`, "twice"},
	"no default":              {tokenizer.ConfigFile, `{"chat_template": [{"name": "a", "template": "x"}]}`, "no default one"},
	"a cut configuration":     {tokenizer.ConfigFile, `{"chat_template": "x`, "unexpected end"},
	"no template":             {tokenizer.ConfigFile, `{}`, "has no chat format"},
	"an end that is a text":   {modelConfigFile, `{"eos_token_id": "x"}`, "want a token id"},
	"no end":                  {modelConfigFile, `{}`, "names no token that ends generation"},
	"a cut house format":      {tokenizer.ChatFile, `{"user_prefix": "`, "unexpected EOF"},
	"a house without an end":  {tokenizer.ChatFile, `{"user_prefix": "x"}`, "no special token"},
}

// Each gives one data error that names the file, soon.
//
// Alone: its time is bounded.
func TestHostileFolders(t *testing.T) {
	for name, test := range hostileFolders {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{modelConfigFile: eos}
			if test.file == modelConfigFile {
				files[TemplateFile] = "x"
			}
			files[test.file] = test.content
			dir := folder(t, files)
			began := cputime.Spent(t, false)
			c, err := Load(dir, time.Time{})
			if err == nil {
				_, err = c.Prompt([]shard.Message{{Role: "user", Content: "hello"}})
			}
			if cost := cputime.Spent(t, false) - began; cost > 5*time.Second {
				t.Errorf("cost %v", cost)
			}
			if exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if !strings.Contains(err.Error(), dir) || len(err.Error()) > 1000 || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is not one line that names the folder: %v", err)
			}
		})
	}
	t.Run("a pipe", func(t *testing.T) {
		dir := folder(t, map[string]string{modelConfigFile: eos})
		if err := syscall.Mkfifo(filepath.Join(dir, TemplateFile), 0o644); err != nil {
			t.Skip(err)
		}
		if _, err := Load(dir, time.Time{}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "a pipe") {
			t.Errorf("got %v", err)
		}
	})
}

// FuzzTemplate: whatever a template is, prompts and demonstrations fit
// together or fail with a data error.
func FuzzTemplate(f *testing.F) {
	for _, test := range hostileFolders {
		if test.file == TemplateFile && len(test.content) < 1000 {
			f.Add(test.content, "hello")
		}
	}
	f.Add(chatML.Jinja(), "hello <|im_end|>")
	f.Add("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}<|im_end|>{% endfor %}", "\U000F0000<|im_end|>\U000F0001")
	text, err := tokenizer.Load(filepath.Join("testdata", "model"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, source, content string) {
		c, err := New(text, map[string]Source{defaultTemplate: {"fuzz", source}}, Settings{StopTokens: []int32{702}})
		if err != nil {
			if exitcode.Code(err) != exitcode.Data {
				t.Error(err)
			}
			return
		}
		conversation := []shard.Message{user(content), says(content), user(content), says("b")}
		check := func(ids []int32, mask []bool, err error) {
			if err != nil && exitcode.Code(err) != exitcode.Data {
				t.Error(err)
			}
			if mask != nil && len(mask) != len(ids) {
				t.Errorf("%d marks of %d tokens", len(mask), len(ids))
			}
		}
		ids, err := c.Prompt(conversation[:3])
		check(ids, nil, err)
		ids, err = c.Continue(conversation[:3], true)
		check(ids, nil, err)
		check(c.Demonstrate(conversation))
		for _, o := range []RenderOptions{{}, {SpellOut: true}, {GenerationPrompt: true}} {
			r, err := c.Render(FromMessages(conversation), o)
			check(r.TokenIDs, r.Assistant, err)
			if err == nil && r.Text != "" && len(r.Assistant) != len(r.TokenIDs) {
				t.Error(fmt.Sprint(len(r.Assistant), " marks of ", len(r.TokenIDs)))
			}
		}
	})
}

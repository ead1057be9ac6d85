package command_test

import (
	littleendian "encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lathe-rl/lathe/data/mle/lists"
	"github.com/lathe-rl/lathe/pkg/internal/golden"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// standIn writes a folder of a policy with the shape of another one, the tokenizer of a
// small one and weights that take no room: a sparse file of zeros.
func standIn(t *testing.T, folder, tokenizer string, shape policy.Config, settings map[string]any) {
	t.Helper()
	must.Do(t, os.CopyFS(folder, os.DirFS(tokenizer)))
	must.Do(t, os.WriteFile(filepath.Join(folder, "config.json"), must.Get(json.Marshal(settings))(t), 0o644))
	header, end := map[string]any{}, 0
	for _, tensor := range policy.Layout(shape) {
		header[tensor.Name] = map[string]any{"dtype": "BF16", "shape": tensor.Shape, "data_offsets": []int{end, end + 2*tensor.Elements()}}
		end += 2 * tensor.Elements()
	}
	text := must.Get(json.Marshal(header))(t)
	text = append(text, strings.Repeat(" ", (8-len(text)%8)%8)...)
	path := filepath.Join(folder, "model.safetensors")
	must.Do(t, os.WriteFile(path, append(littleendian.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), 0o644))
	must.Do(t, os.Truncate(path, int64(8+len(text)+end)))
}

// fullModels are stand-ins for the policies that the full recipes name.
func fullModels(t *testing.T, folder string) {
	t.Helper()
	small := t.TempDir()
	resolved := must.Get(recipe.Load(longSmoke, nil))(t)
	environment := must.Get(resolved.Recipe.NewEnv(filepath.Dir(longSmoke)))(t)
	must.Do(t, warm.InitPolicy(warm.SettingsOf(resolved.Recipe), environment, small))
	must.Do(t, os.Remove(filepath.Join(small, "model.safetensors")))
	for _, m := range []struct {
		name                                              string
		hidden, inner, layers, heads, keys, vocab, tokens int
		tied                                              bool
	}{
		{"Qwen3-8B", 4096, 12288, 36, 32, 8, 151936, 40960, false},
		{"QwQ-32B", 5120, 27648, 64, 40, 8, 152064, 40960, false},
		{"Qwen2.5-3B-Instruct", 2048, 11008, 36, 16, 2, 151936, 32768, true},
		{"DeepSeek-R1-Distill-Qwen-7B", 3584, 18944, 28, 28, 4, 152064, 131072, false},
	} {
		shape := policy.Config{
			HiddenSize: m.hidden, IntermediateSize: m.inner, NumHiddenLayers: m.layers, NumAttentionHeads: m.heads, NumKeyValueHeads: m.keys,
			HeadDim: 128, VocabSize: m.vocab, TieWordEmbeddings: m.tied, QKVBias: true,
		}
		kind, class := "qwen2", "Qwen2ForCausalLM"
		if strings.HasPrefix(m.name, "Qwen3") {
			kind, class, shape.QKVBias, shape.QKNorm = "qwen3", "Qwen3ForCausalLM", false, policy.QKNormHead
		}
		standIn(t, filepath.Join(folder, m.name), small, shape, map[string]any{
			"architectures": []string{class}, "model_type": kind, "hidden_act": "silu", "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16",
			"hidden_size": m.hidden, "intermediate_size": m.inner, "num_hidden_layers": m.layers, "num_attention_heads": m.heads, "num_key_value_heads": m.keys,
			"head_dim": 128, "vocab_size": m.vocab, "max_position_embeddings": m.tokens, "tie_word_embeddings": m.tied, "rope_theta": 1e6,
		})
	}
}

// fullTasks are stand-ins for the competitions of a list: small, and each with answers of
// its own.
func fullTasks(t *testing.T, folder, list string) {
	t.Helper()
	for _, id := range must.Get(lists.Lookup(list))(t) {
		for name, text := range map[string]string{
			"task.yaml":                    "metric: accuracy\ndirection: maximize\nid_column: id\ntarget_columns: [kind]\nscore_range: {worst: 0, best: 1}\n",
			"description.md":               "Competition " + id + ".",
			"public/test.csv":              "id,length\n4,2\n5,3\n",
			"public/sample_submission.csv": "id,kind\n4,a\n5,a\n",
			"private/answers.csv":          "id,kind\n4,a\n5," + id + "\n",
			"leaderboard.csv":              "rank,score\n1,1\n2,0.6\n3,0.4\n",
		} {
			path := filepath.Join(folder, id, name)
			must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		}
	}
}

// dryRuns heads the page that TestFullRecipes keeps.
const dryRuns = `# What the full recipes of the machine-learning papers ask for

    go test ./pkg/command -run TestFullRecipes -v            # seconds and memory of each dry run
    go test ./pkg/command -run TestFullRecipes -update       # writes this page

By ` + "`lathe run RECIPE --dry-run`" + `, over stand-ins: small tasks with the names of MLE-Dojo's 134 and MLE-bench's 75 competitions, and
policies of the real shapes without weights. Tasks are at most so many: every wave has all its shards. The bound is every task at its time
limit, or every trace at its budget, with arrays one after the other; the estimate assumes 20 GFLOP/s a core and 50 TFLOP/s a GPU, and leaves out the time of programs
that score. The test bounds the processor time and the memory of each dry run, and ` + "`-v`" + ` prints them.

| recipe | tasks | arrays | bound, hours | estimate, core-hours | GPU-hours | hours |
|---|---:|---:|---:|---:|---:|---:|
`

// The most that a dry run of a full recipe may say and take.
const (
	mostTasks      = 1_000_000
	mostCPU        = 10 * time.Second
	mostKilobytes  = 512 << 10
	refusedForPool = "warm_start.pool"
)

var (
	totalTasks  = regexp.MustCompile(` (\d+) tasks in (\d+) arrays`)
	boundHours  = regexp.MustCompile(`(?m)^total .* ([0-9.]+) +[0-9.]+ [A-Za-z]*B$`)
	estimatedAs = regexp.MustCompile(`estimate: (\S+) core-hours, (\S+) GPU-hours, (\S+) hours`)
)

// TestFullRecipes: a dry run of each full recipe of the papers on machine-learning tasks, of
// that of all 75 competitions too, is quick, plans a number of tasks that a cluster takes, and
// refuses nothing but what the header of a recipe says is to be made before.
func TestFullRecipes(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	fullModels(t, filepath.Join(top, "models"))
	fullTasks(t, filepath.Join(top, "data", "mle-dojo"), "mle-dojo")
	fullTasks(t, filepath.Join(top, "data", "mle-bench"), "mle-bench")
	page := dryRuns
	for _, paper := range []string{"ace", "exit", "mlerl", "rlmle"} {
		for _, file := range must.Get(filepath.Glob(filepath.Join(repository, "jobs", paper, "*.yaml")))(t) {
			name := paper + "/" + strings.TrimSuffix(filepath.Base(file), ".yaml")
			if name == "rlmle/smoke" {
				continue // a small one, for tests
			}
			command := exec.Command("lathe", "run", file, "--run", filepath.Join(top, "run"), "--dry-run")
			command.Env = append(os.Environ(), "LATHE_DATA="+filepath.Join(top, "data"), "LATHE_MODELS="+filepath.Join(top, "models"), "LATHE_RUNS="+filepath.Join(top, "runs"))
			var failure strings.Builder
			command.Stderr = &failure
			out, err := command.Output()
			if command.ProcessState == nil {
				t.Fatal(err)
			}
			cpu, memory := command.ProcessState.UserTime()+command.ProcessState.SystemTime(), command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
			t.Logf("%s: %v of processor time, %d MB", name, cpu, memory>>10)
			if cpu > mostCPU || memory > mostKilobytes {
				t.Errorf("%s: the dry run takes %v of processor time and %d KB", name, cpu, memory)
			}
			if err != nil {
				header := string(must.Get(os.ReadFile(file))(t))
				if !strings.Contains(failure.String(), refusedForPool) || !strings.Contains(header, "lathe pool") {
					t.Errorf("%s is refused, and its header does not say so: %s", name, failure.String())
				}
				page += fmt.Sprintf("| %s | refused before its pool is made | | | | | |\n", name)
				continue
			}
			text := string(out)
			total, bound, estimate := totalTasks.FindStringSubmatch(text), boundHours.FindStringSubmatch(text), estimatedAs.FindStringSubmatch(text)
			if total == nil || bound == nil || estimate == nil {
				t.Errorf("%s: the dry run says\n%s", name, text)
				continue
			}
			var tasks int
			if _, err := fmt.Sscan(total[1], &tasks); err != nil || tasks > mostTasks {
				t.Errorf("%s: %s tasks, want at most %d", name, total[1], mostTasks)
			}
			page += fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |\n", name, total[1], total[2], bound[1], estimate[1], estimate[2], estimate[3])
		}
	}
	golden.Check(t, filepath.Join(repository, "analysis", "results", "dryrun", "README.md"), page)
}

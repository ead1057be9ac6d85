package command_test

import (
	littleendian "encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/data/mle/lists"
	"github.com/lathe-rl/lathe/pkg/command"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// publishedFiles is in how many files the weights of each policy are published that a full
// recipe names.
var publishedFiles = map[string]int{
	"DeepSeek-R1-Distill-Qwen-7B": 2, "Llama-3.1-8B-Instruct": 4, "Llama-3.2-3B-Instruct": 2, "Qwen2.5-3B-Instruct": 2,
	"Qwen2.5-7B-Instruct": 4, "Qwen3-4B-Instruct-2507": 3, "Qwen3-8B": 5, "QwQ-32B": 14,
}

// standIn writes a folder of a policy with the shape of another one, the tokenizer of a
// small one, and weights that take no room: so many sparse files of zeros, about as large.
func standIn(t *testing.T, folder, tokenizer string, shape policy.Config, files int) {
	t.Helper()
	must.Do(t, os.CopyFS(folder, os.DirFS(tokenizer)))
	kinds := map[policy.Architecture]string{policy.Llama: "llama", policy.Qwen2: "qwen2", policy.Qwen3: "qwen3"}
	settings := must.Get(json.Marshal(map[string]any{
		"architectures": []policy.Architecture{shape.Architecture}, "model_type": kinds[shape.Architecture], "hidden_act": "silu", "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16",
		"hidden_size": shape.HiddenSize, "intermediate_size": shape.IntermediateSize, "num_hidden_layers": shape.NumHiddenLayers, "num_attention_heads": shape.NumAttentionHeads,
		"num_key_value_heads": shape.NumKeyValueHeads, "head_dim": shape.HeadDim, "vocab_size": shape.VocabSize, "max_position_embeddings": shape.MaxPositionEmbeddings,
		"tie_word_embeddings": shape.TieWordEmbeddings, "rope_theta": 1e6,
	}))(t)
	must.Do(t, os.WriteFile(filepath.Join(folder, "config.json"), settings, 0o644))
	index, headers, ends := map[string]string{}, make([]map[string]any, files), make([]int, files)
	written, all := 0, policy.ParameterCount(shape)
	for _, tensor := range policy.Layout(shape) {
		i := min(files-1, int(int64(written)*int64(files)/int64(all)))
		if headers[i] == nil {
			headers[i] = map[string]any{}
		}
		end := ends[i] + 2*tensor.Elements()
		headers[i][tensor.Name] = map[string]any{"dtype": "BF16", "shape": tensor.Shape, "data_offsets": []int{ends[i], end}}
		index[tensor.Name], ends[i] = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, files), end
		written += tensor.Elements()
	}
	for i, header := range headers {
		text := must.Get(json.Marshal(header))(t)
		text = append(text, strings.Repeat(" ", (8-len(text)%8)%8)...)
		path := filepath.Join(folder, fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, files))
		must.Do(t, os.WriteFile(path, append(littleendian.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), 0o644))
		must.Do(t, os.Truncate(path, int64(8+len(text)+ends[i])))
	}
	listed := must.Get(json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 2 * all}, "weight_map": index}))(t)
	must.Do(t, os.WriteFile(filepath.Join(folder, "model.safetensors.index.json"), listed, 0o644))
}

// fullModels are stand-ins for the policies that the full recipes name.
func fullModels(t *testing.T, folder string) {
	t.Helper()
	small := t.TempDir()
	resolved := must.Get(recipe.Load(longSmoke, nil))(t)
	environment := must.Get(resolved.Recipe.NewEnv(filepath.Dir(longSmoke)))(t)
	must.Do(t, warm.InitPolicy(warm.SettingsOf(resolved.Recipe), environment, small))
	must.Do(t, os.Remove(filepath.Join(small, "model.safetensors")))
	for name, shape := range command.PublishedShapes {
		standIn(t, filepath.Join(folder, name), small, shape, publishedFiles[name])
	}
}

// write writes a file into a folder that need not be there.
func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
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
			write(t, filepath.Join(folder, id, name), text)
		}
	}
}

// fullProblems are stand-ins for the sets of mathematical problems and of questions with
// choices, each with as many as a recipe asks for.
func fullProblems(t *testing.T, folder string) {
	t.Helper()
	asked := 0
	lines := func(name string, n int, line func(i int) string) {
		var b strings.Builder
		for range n {
			asked++
			b.WriteString(line(asked))
		}
		write(t, filepath.Join(folder, name), b.String())
	}
	for name, n := range map[string]int{
		"competition_math/train.jsonl": 1280, "math500/test.jsonl": 500, "amc12/2022.jsonl": 43, "amc12/2023.jsonl": 40, "aime/2024.jsonl": 30, "aime/2025.jsonl": 30,
		"minerva_math/test.jsonl": 272, "olympiadbench/OE_TO_maths_en_COMP.jsonl": 674, "math/train.jsonl": 100,
		"deepmath/train.jsonl": 1000, "am_math_difficulty_rl/level1.jsonl": 1000, "am_math_difficulty_rl/level2.jsonl": 1000,
		"aime25/test.jsonl": 30, "aime24/test.jsonl": 30, "hmmt_feb_2025/test.jsonl": 30, "brumo_2025/test.jsonl": 30, "cmimc_2025/test.jsonl": 40,
	} {
		lines(name, n, func(i int) string {
			return fmt.Sprintf("{\"problem\": \"What is %d + 1?\", \"question\": \"What is %d + 1?\", \"answer\": \"%d\", \"final_answer\": \"%d\", \"solution\": \"It is $\\\\boxed{%d}$.\"}\n", i, i, i+1, i+1, i+1)
		})
	}
	const truthful, diamond = "Category,Question,Best Answer,Best Incorrect Answer\n", "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3,High-level domain\n"
	table := func(name, header string, n int, row func(i int) string) {
		first := true
		lines(name, n, func(i int) string {
			text := row(i)
			if first {
				text, first = header+text, false
			}
			return text
		})
	}
	table("truthfulqa/TruthfulQA.csv", truthful, 790, func(i int) string { return fmt.Sprintf("Numbers,Is %d one?,no,yes\n", i) })
	table("gpqa/gpqa_diamond.csv", diamond, 198, func(i int) string { return fmt.Sprintf("What is %d?,one,two,three,four,Numbers\n", i) })
	lines("supergpqa/SuperGPQA-all.jsonl", 1000, func(i int) string {
		return fmt.Sprintf("{\"uuid\": \"u%d\", \"question\": \"Is %d one?\", \"options\": [\"yes\", \"no\"], \"answer_letter\": \"B\", \"discipline\": \"Numbers\"}\n", i, i)
	})
	var questions []map[string]any
	for i := range 11435 {
		questions = append(questions, map[string]any{"id": i, "category": "Numbers", "question": fmt.Sprintf("Is %d safe?", i), "options": []string{"yes", "no"}, "answer": 0})
	}
	write(t, filepath.Join(folder, "safetybench", "test_en.json"), string(must.Get(json.Marshal(questions))(t)))
}

// fullFunctions are stand-ins for the 200 tasks of BFCL and their halves.
func fullFunctions(t *testing.T, folder string) {
	t.Helper()
	var tasks, answers strings.Builder
	halves := map[string][]string{}
	for i := range 200 {
		id := fmt.Sprintf("multi_turn_base_%d", i)
		fmt.Fprintf(&tasks, "{\"id\": %q, \"question\": [[{\"role\": \"user\", \"content\": \"Add %d and 1.\"}]], \"initial_config\": {}, \"involved_classes\": [\"MathAPI\"]}\n", id, i)
		fmt.Fprintf(&answers, "{\"id\": %q, \"ground_truth\": [[\"add(a=%d, b=1)\"]]}\n", id, i)
		half := []string{"train", "test"}[i%2]
		halves[half] = append(halves[half], id)
	}
	write(t, filepath.Join(folder, "BFCL_v4_multi_turn_base.json"), tasks.String())
	write(t, filepath.Join(folder, "possible_answer", "BFCL_v4_multi_turn_base.json"), answers.String())
	write(t, filepath.Join(folder, "split_100_100.json"), string(must.Get(json.Marshal(halves))(t)))
	write(t, filepath.Join(folder, "multi_turn_func_doc", "math_api.json"),
		`{"name": "add", "description": "Add two numbers.", "parameters": {"type": "dict", "properties": {"a": {"type": "float", "description": "first"}, "b": {"type": "float", "description": "second"}}, "required": ["a", "b"]}}`+"\n")
}

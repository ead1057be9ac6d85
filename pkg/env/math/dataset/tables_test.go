package dataset

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The rows of testdata/tables, as make.py there has them.
var tableRows = []map[string]any{
	{
		"data_source": "openai/gsm8k", "prompt": []any{map[string]any{"role": "user", "content": "1+1?"}},
		"reward_model": map[string]any{"style": "rule", "ground_truth": "2"},
		"extra_info":   map[string]any{"index": json.Number("0"), "share": json.Number("0.1"), "list": []any{json.Number("1"), nil, json.Number("3")}, "flag": true},
		"bytes":        "/wA=", "single": json.Number("0.10000000149011612"), "kind": "a",
	},
	{
		"data_source": "openai/gsm8k", "prompt": []any{map[string]any{"role": "system", "content": "Be brief. é"}, map[string]any{"role": "user", "content": "2+2?"}},
		"reward_model": map[string]any{"style": "rule", "ground_truth": "4"},
		"extra_info":   map[string]any{"index": json.Number("1"), "share": json.Number("1e+300"), "list": []any{}, "flag": nil},
		"bytes":        "text", "single": "nan", "kind": "b",
	},
	{
		"data_source": nil, "prompt": []any{map[string]any{"role": "user", "content": "3+3?"}, map[string]any{"role": "assistant", "content": "6"}},
		"reward_model": map[string]any{"style": "rule", "ground_truth": "6"},
		"extra_info":   map[string]any{"index": json.Number("1152921504606846977"), "share": json.Number("-0.5"), "list": nil, "flag": false},
		"bytes":        nil, "single": nil, "kind": "a",
	},
}

func verl() Source {
	return Source{Fields: Fields{Question: "prompt", Answer: "reward_model.ground_truth", AnswerFrom: "text"}}
}

// Parquet, Arrow and a saved data set, in verl's layout, are the same rows.
func TestTables(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]int{"verl.parquet": 1, "verl.arrow": 1, "saved": 2} {
		path := filepath.Join("testdata", "tables", name)
		rows, inputs, err := together(t, path).ReadRows(path, verl())
		if err != nil || len(inputs) != files {
			t.Errorf("%s: %d files, %v", name, len(inputs), err)
			continue
		}
		var columns []map[string]any
		for _, row := range rows {
			values := map[string]any{}
			for column, raw := range row.Columns {
				decoder := json.NewDecoder(strings.NewReader(string(raw)))
				decoder.UseNumber()
				var value any
				must.Do(t, decoder.Decode(&value))
				values[column] = value
			}
			columns = append(columns, values)
		}
		if diff := cmp.Diff(tableRows, columns); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		stem := strings.TrimSuffix(name, filepath.Ext(name))
		for i, want := range []Row{
			{Messages: []shard.Message{{Role: "user", Content: "1+1?"}}},
			{Messages: []shard.Message{{Role: "system", Content: "Be brief. é"}, {Role: "user", Content: "2+2?"}}},
			{Messages: []shard.Message{{Role: "user", Content: "3+3?"}, {Role: "assistant", Content: "6"}}},
		} {
			got := rows[i]
			id, answer := stem+"/"+string(rune('1'+i)), string(rune('2'+2*i))
			if got.Task.ID != id || got.Task.Answer != answer || got.Answer != nil || cmp.Diff(want.Messages, got.Messages) != "" {
				t.Errorf("%s: row %d is %+v", name, i, got)
			}
		}
	}
}

// Tables that cannot be read are named, with exit code 65.
func TestBadTables(t *testing.T) {
	t.Parallel()
	whole := must.Get(os.ReadFile(filepath.Join("testdata", "tables", "verl.parquet")))(t)
	damaged := slices.Clone(whole)
	for i := range 40 { // of the first page
		damaged[20+i] ^= 0x55
	}
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	for path, want := range map[string]string{
		write("cut.parquet", string(whole[:len(whole)/2])):                               "cannot be read as Parquet",
		write("damaged.parquet", string(damaged)):                                        "cannot be read as Parquet: row group 1: column \"data_source\": a page is damaged",
		write("text.parquet", "hello"):                                                   "cannot be read as Parquet",
		write("empty.arrow", ""):                                                         "cannot be read as Arrow",
		write("text.arrow", "hello, world, and more"):                                    "cannot be read as Arrow",
		filepath.Dir(write("dict/dataset_dict.json", "{}")):                              "holds several splits",
		filepath.Dir(write("none/state.json", "{}")):                                     "names no files",
		filepath.Dir(write("bad/state.json", "[")):                                       "is not that of a saved data set",
		filepath.Dir(write("out/state.json", `{"_data_files":[{"filename":"../x"}]}`)):   "not in the folder",
		filepath.Dir(write("lost/state.json", `{"_data_files":[{"filename":"a"}]}`)):     "lacks a file",
		filepath.Dir(write("idx/state.json", `{"_data_files":[],"_indices_files":[1]}`)): "is not that of a saved data set",
	} {
		if _, _, err := together(t, path).ReadRows(path, verl()); err == nil || !strings.Contains(err.Error(), want) || exitcode.Code(err) != exitcode.Data {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

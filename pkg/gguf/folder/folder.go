// Package folder writes a GGUF file as a model folder in Hugging Face's layout:
// config.json, generation_config.json, tokenizer.json, tokenizer_config.json, weights in
// safetensors files, and import.json, which records where they are from.
package folder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/gguf"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// SourceFile records where the weights of a folder are from. Policies that are trained
// from them carry it along.
const SourceFile = "import.json"

// Source is the content of SourceFile.
type Source struct {
	File         string         `json:"file"` // its name, without folders
	SHA256       string         `json:"sha256"`
	Format       string         `json:"format"`       // such as GGUF v3
	Architecture string         `json:"architecture"` // as the file names it
	Type         string         `json:"type"`         // of most weights in the file
	Types        map[string]int `json:"parameters_by_type"`
	DType        string         `json:"dtype"`        // that the weights were rounded to
	ModelSHA256  string         `json:"model_sha256"` // of the weights as they were written (checkpoint.Digest)
}

// ReadSource reads SourceFile; nil for a folder that has none.
func ReadSource(folder string) (*Source, error) {
	path := filepath.Join(folder, SourceFile)
	raw, err := plainfile.Read(path, plainfile.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s Source
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, exitcode.Dataf("reading %q: %w", path, err)
	}
	return &s, nil
}

// Options say how a folder is written.
type Options struct {
	DType        safetensors.DType // of the weights; empty is F32, which holds every value exactly
	Pre          string            // the pre-tokenizer, in place of the one that the file names
	MaxFileBytes int64             // of weights in one file; 0 is 5 GB
}

// Write writes the model of a GGUF file into an existing folder. Sealing the files is the
// caller's business. What is not implemented exactly is refused by its name.
func Write(path, to string, o Options) error {
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f, path, to, o); err != nil {
		return fmt.Errorf("importing %q: %w", path, err)
	}
	return nil
}

func write(f *gguf.File, path, to string, o Options) error {
	o.DType = cmp.Or(o.DType, safetensors.F32)
	m, err := readModel(f)
	if err != nil {
		return refused(err)
	}
	t, err := readTokenizer(f.Metadata, o.Pre, m)
	if err != nil {
		return refused(err)
	}
	source := Source{File: filepath.Base(path), Format: fmt.Sprintf("GGUF v%d", f.Version), Architecture: m.name, Types: map[string]int{}, DType: dtypeNames[o.DType]}
	for _, tensor := range f.Tensors() {
		source.Types[tensor.Type.String()] += tensor.Elements()
	}
	for name, n := range source.Types {
		if most := source.Types[source.Type]; n > most || n == most && name < source.Type {
			source.Type = name
		}
	}
	if source.SHA256, err = f.SHA256(); err != nil {
		return err
	}
	if err := m.writeWeights(f, to, o); err != nil {
		return err
	}
	if source.ModelSHA256, err = checkpoint.Digest(to); err != nil {
		return err
	}
	files := map[string]any{
		"config.json": m.configJSON(t, o.DType), "generation_config.json": m.generationJSON(t),
		"tokenizer.json": t.json(), "tokenizer_config.json": t.configJSON(m.positions), SourceFile: source,
	}
	for name, value := range files {
		content, err := plainjson.Document(value)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), content, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// refused makes a data error of one that is none yet.
func refused(err error) error {
	if exitcode.Code(err) == exitcode.Data || exitcode.Code(err) == exitcode.Usage {
		return err
	}
	return exitcode.Dataf("%w", err)
}

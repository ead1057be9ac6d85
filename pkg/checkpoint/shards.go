package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// weightsFiles are the safetensors files of a model folder: one, or the shards
// that an index lists.
type weightsFiles struct {
	folder  string
	sharded bool
	names   []string // sorted
	files   []*safetensors.File
	at      map[string]int // the file of each tensor
}

// openWeights opens model.safetensors or, where there is none, the shards of
// model.safetensors.index.json, as transformers chooses.
func openWeights(folder string) (*weightsFiles, error) {
	w := &weightsFiles{folder: folder, at: map[string]int{}}
	f, err := safetensors.Open(filepath.Join(folder, WeightsFile))
	switch {
	case err == nil:
		w.names, w.files = []string{WeightsFile}, []*safetensors.File{f}
		for _, info := range f.Tensors() {
			w.at[info.Name] = 0
		}
		return w, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	index, err := readIndex(folder)
	if err != nil {
		return nil, err
	}
	w.sharded, w.names = true, index.files
	if err := w.openShards(index); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// openShards opens every file of the index, each of which must hold the
// tensors that the index puts there and no others.
func (w *weightsFiles) openShards(index index) error {
	for i, name := range w.names {
		path := filepath.Join(w.folder, name)
		f, err := safetensors.Open(path)
		if err != nil {
			return fmt.Errorf("a file that %s lists: %w", IndexFile, err)
		}
		w.files = append(w.files, f)
		for _, info := range f.Tensors() {
			if index.fileOf[info.Name] != name {
				return exitcode.Dataf("reading %q: it holds the tensor %q, which %s puts in %q", path, info.Name, IndexFile, index.fileOf[info.Name])
			}
			w.at[info.Name] = i
		}
	}
	for name, file := range index.fileOf {
		if _, there := w.at[name]; !there {
			return exitcode.Dataf("reading %q: there is no tensor %q, which %s puts there", filepath.Join(w.folder, file), name, IndexFile)
		}
	}
	return nil
}

// lookup finds a tensor and the file that holds it.
func (w *weightsFiles) lookup(name string) (file int, info safetensors.Info, ok bool) {
	file, ok = w.at[name]
	if ok {
		info, _ = w.files[file].Lookup(name)
	}
	return file, info, ok
}

// path is the path of a file.
func (w *weightsFiles) path(file int) string { return filepath.Join(w.folder, w.names[file]) }

// whole is what stands for all files: the only one, or the index.
func (w *weightsFiles) whole() string {
	if w.sharded {
		return filepath.Join(w.folder, IndexFile)
	}
	return w.path(0)
}

func (w *weightsFiles) Close() error {
	var faults []error
	for _, f := range w.files {
		faults = append(faults, f.Close())
	}
	return errors.Join(faults...)
}

// index is what model.safetensors.index.json says.
type index struct {
	files  []string          // sorted
	fileOf map[string]string // by the tensor's name
}

// readIndex reads the index of a folder.
func readIndex(folder string) (index, error) {
	path := filepath.Join(folder, IndexFile)
	raw, err := plainfile.Read(path, safetensors.MaxHeaderBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return index{}, exitcode.WithHint(exitcode.Dataf("reading %q: it has neither %s nor %s", folder, WeightsFile, IndexFile),
			"to convert weights of another format, use transformers: model.save_pretrained(FOLDER)")
	}
	if err != nil {
		return index{}, err
	}
	x, err := parseIndex(raw)
	if err != nil {
		return index{}, exitcode.Dataf("reading %q: %w", path, err)
	}
	return x, nil
}

// parseIndex reads the bytes of an index. Files lie beside it: a name that
// leads elsewhere is refused.
func parseIndex(raw []byte) (index, error) {
	var outer struct {
		WeightMap json.RawMessage `json:"weight_map"`
	}
	if err := json.Unmarshal(raw, &outer); err != nil {
		return index{}, fmt.Errorf("not an index of weights: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(outer.WeightMap))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return index{}, errors.New("the index has no weight_map from tensors to files")
	}
	x := index{fileOf: map[string]string{}}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return index{}, fmt.Errorf("weight_map: %w", err)
		}
		tensor := key.(string) // a key of a JSON object
		var file string
		if err := decoder.Decode(&file); err != nil {
			return index{}, fmt.Errorf("weight_map: the file of tensor %q: %w", tensor, err)
		}
		if err := checkShardName(file); err != nil {
			return index{}, fmt.Errorf("weight_map: the file of tensor %q: %w", tensor, err)
		}
		if first, twice := x.fileOf[tensor]; twice {
			return index{}, fmt.Errorf("weight_map: tensor %q appears twice, in %q and %q", tensor, first, file)
		}
		x.fileOf[tensor] = file
		x.files = append(x.files, file)
	}
	slices.Sort(x.files)
	x.files = slices.Compact(x.files)
	if len(x.files) == 0 {
		return index{}, errors.New("weight_map lists no tensors")
	}
	return x, nil
}

// checkShardName wants the plain name of a safetensors file.
func checkShardName(name string) error {
	if strings.ContainsAny(name, "/\\\x00\uFFFD") || strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".safetensors") {
		return fmt.Errorf("%q is not the plain name of a .safetensors file in the same folder", name)
	}
	return nil
}

package checkpoint

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// plannedFile is a weights file that is going to be written.
type plannedFile struct {
	name     string
	tensors  []safetensors.Info
	from     []int // where the tensors are among those of Layout
	metadata map[string]string
}

// writePlanned writes weights files and, if there are to be several, their
// index. read fills dst with the elements from.. of tensor index of Layout.
func writePlanned(folder string, files []plannedFile, sharded bool, read func(dst []float32, index, from int) error) error {
	for _, f := range files {
		err := WriteFile(filepath.Join(folder, f.name), func(w io.Writer) error {
			return safetensors.WriteFrom(w, f.tensors, f.metadata, func(dst []float32, i, from int) error {
				return read(dst, f.from[i], from)
			})
		})
		if err != nil {
			return err
		}
	}
	if !sharded {
		return nil
	}
	return writeIndex(folder, files)
}

// indexOf is the content of the index of files, as transformers writes it.
func indexOf(files []plannedFile) []byte {
	var x struct {
		Metadata struct {
			TotalParameters int   `json:"total_parameters"`
			TotalSize       int64 `json:"total_size"` // bytes
		} `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	x.WeightMap = map[string]string{}
	for _, f := range files {
		for _, t := range f.tensors {
			x.WeightMap[t.Name] = f.name
			x.Metadata.TotalParameters += t.Elements()
			x.Metadata.TotalSize += int64(t.Elements()) * int64(t.DType.Bytes())
		}
	}
	return indentJSON(x)
}

// WriteFile creates a file with a buffer before it.
func WriteFile(path string, write func(w io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buffered := bufio.NewWriterSize(f, 1<<20)
	if err := write(buffered); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return nil
}

// withDType returns config.json with the values of torch_dtype and dtype
// changed and every other byte as it was. A file that names neither is
// returned as it is: transformers then goes by the weights.
func withDType(raw []byte, d safetensors.DType) ([]byte, error) {
	name, err := json.Marshal(dtypeNames[d])
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, exitcode.Dataf("not a JSON object")
	}
	var changed []byte
	done := 0 // bytes of raw that are in changed
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, exitcode.Dataf("not valid JSON: %w", err)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, exitcode.Dataf("not valid JSON: %w", err)
		}
		if key == "torch_dtype" || key == "dtype" {
			end := int(decoder.InputOffset())
			changed = append(append(changed, raw[done:end-len(value)]...), name...)
			done = end
		}
	}
	return append(changed, raw[done:]...), nil
}

// dtypeNames are the types as config.json names them.
var dtypeNames = map[safetensors.DType]string{safetensors.F32: "float32", safetensors.F16: "float16", safetensors.BF16: "bfloat16"}

// mainDType is the type of most elements; F32 when there are as many of it.
func mainDType(tensors []policy.Tensor) safetensors.DType {
	elements := map[safetensors.DType]int{}
	for _, t := range tensors {
		elements[t.StoredAs()] += t.Elements()
	}
	main := safetensors.F32
	for _, d := range []safetensors.DType{safetensors.BF16, safetensors.F16} {
		if elements[d] > elements[main] {
			main = d
		}
	}
	return main
}

// weightsOfOthers are the endings of files that hold weights. They are not
// carried along: those in other formats would be of a policy that is no more.
var weightsOfOthers = []string{".safetensors", ".index.json", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf"}

// moreTemplates is the folder of chat templates beside the first one, as
// transformers writes it.
const moreTemplates = "additional_chat_templates"

// CarryFiles copies what a model folder holds besides its weights, byte for
// byte: tokenizer, chat template, generation_config.json, licence. Hidden
// files and folders are left, but for the one of more chat templates, and so
// are files that are there already.
func CarryFiles(to, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") || slices.ContainsFunc(weightsOfOthers, func(ending string) bool { return strings.HasSuffix(name, ending) }) {
			continue
		}
		info, err := os.Stat(filepath.Join(from, name)) // of what a link leads to
		if err != nil {
			return exitcode.Dataf("copying %q: %w", name, err)
		}
		if info.IsDir() && name == moreTemplates {
			if err := os.MkdirAll(filepath.Join(to, name), 0o777); err != nil {
				return err
			}
			if err := CarryFiles(filepath.Join(to, name), filepath.Join(from, name)); err != nil {
				return err
			}
			continue
		}
		if _, err := os.Lstat(filepath.Join(to, name)); err == nil || !info.Mode().IsRegular() {
			continue
		}
		if err := copyFile(filepath.Join(to, name), filepath.Join(from, name)); err != nil {
			return fmt.Errorf("copying %q: %w", name, err)
		}
	}
	return nil
}

func copyFile(to, from string) error {
	f, _, err := plainfile.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return WriteFile(to, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}

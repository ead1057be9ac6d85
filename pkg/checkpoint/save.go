package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// Save writes a new policy into an existing folder: config.json,
// generation_config.json and model.safetensors. The tensors are those of
// Layout, in its order, and are stored in their types. The same arguments give
// the same bytes. Sealing the files is the caller's business.
func Save(folder string, c policy.Config, tensors []policy.Tensor) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := matchLayout(policy.Layout(c), tensors); err != nil {
		return exitcode.Bugf("saving a policy to %q: %w", folder, err)
	}
	config, err := withDType(formatConfig(c), mainDType(tensors))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, ConfigFile), config, 0o666); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, GenerationFile), generationJSON(c), 0o666); err != nil {
		return err
	}
	file := plannedFile{name: WeightsFile, metadata: ofTorch(nil)}
	for i, t := range tensors {
		file.add(i, t.Name, t)
	}
	return writePlanned(folder, []plannedFile{file}, false, inMemory(tensors))
}

// SaveLike writes a policy into an existing folder as another folder has it,
// from which it came: the same names of tensors in the same files, the same
// other files byte for byte. The tensors are those of Layout for the other
// folder's configuration, in its order. They are stored in their types; if
// those are not the other folder's, config.json says so, and else is the same.
// Sealing the files is the caller's business.
func SaveLike(folder, like string, tensors []policy.Tensor) error {
	source, err := openFolder(like)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := matchLayout(source.tensors, tensors); err != nil {
		return exitcode.Bugf("saving a policy to %q: %w", folder, err)
	}
	if err := carryConfig(folder, like, source.tensors, tensors); err != nil {
		return err
	}
	if err := writePlanned(folder, source.plan(tensors), source.weights.sharded, inMemory(tensors)); err != nil {
		return err
	}
	return CarryFiles(folder, like)
}

// plan lists the files of a folder with tensors in new types. A head that is
// stored although it is tied is stored again.
func (s *folderSource) plan(tensors []policy.Tensor) []plannedFile {
	at := make(map[string]int, len(tensors))
	for i, t := range tensors {
		at[t.Name] = i
	}
	files := make([]plannedFile, len(s.weights.files))
	for i, f := range s.weights.files {
		files[i] = plannedFile{name: s.weights.names[i], metadata: ofTorch(f.Metadata)}
		for _, info := range f.Tensors() {
			from, known := at[info.Name]
			if !known && info.Name == policy.HeadName {
				from, known = at[policy.EmbeddingName] // a tied head
			}
			if known { // match leaves only what is computed besides
				files[i].add(from, info.Name, tensors[from])
			}
		}
	}
	return files
}

// add plans tensor index of Layout, under a name.
func (f *plannedFile) add(index int, name string, t policy.Tensor) {
	f.tensors = append(f.tensors, safetensors.Info{Name: name, Shape: t.Shape, DType: t.StoredAs()})
	f.from = append(f.from, index)
}

// ofTorch is a file's metadata with the entry that loaders ask for.
func ofTorch(metadata map[string]string) map[string]string {
	with := map[string]string{"format": "pt"}
	maps.Copy(with, metadata)
	return with
}

// inMemory reads tensors, which must be finite.
func inMemory(tensors []policy.Tensor) func(dst []float32, index, from int) error {
	return func(dst []float32, index, from int) error {
		copy(dst, tensors[index].Data[from:])
		return policy.CheckFinite(dst, tensors[index].Name, from)
	}
}

// carryConfig copies config.json, with the type of the weights changed if it
// has changed.
func carryConfig(to, from string, old, tensors []policy.Tensor) error {
	path := filepath.Join(from, ConfigFile)
	raw, err := plainfile.Read(path, maxConfigBytes)
	if err != nil {
		return err
	}
	if d := mainDType(tensors); d != mainDType(old) {
		if raw, err = withDType(raw, d); err != nil {
			return fmt.Errorf("reading %q: %w", path, err)
		}
	}
	return os.WriteFile(filepath.Join(to, ConfigFile), raw, 0o666)
}

// matchLayout compares names, shapes and sizes.
func matchLayout(layout, tensors []policy.Tensor) error {
	if len(layout) != len(tensors) {
		return fmt.Errorf("%d tensors given; the model has %d", len(tensors), len(layout))
	}
	for i, want := range layout {
		got := tensors[i]
		if got.Name != want.Name || !slices.Equal(got.Shape, want.Shape) || len(got.Data) != want.Elements() {
			return fmt.Errorf("tensor %d is %q %v with %d elements; %q %v was expected", i, got.Name, got.Shape, len(got.Data), want.Name, want.Shape)
		}
	}
	return nil
}

// Convert writes the policy of one folder into another, existing one with its
// weights in another type and division: rounded to d, or in the types they
// have if d is empty; in files of at most maxFileBytes of data, but at least
// one tensor, or in one file if maxFileBytes is 0. Other files, a value head
// among them, are carried along. Sealing the files is the caller's business.
func Convert(from, to string, d safetensors.DType, maxFileBytes int64) error {
	if d != "" && !d.Float() {
		return exitcode.Usagef("weights cannot be converted to %q: F32, F16 and BF16 can be written", d)
	}
	if maxFileBytes < 0 {
		return exitcode.Usagef("files of at most %d bytes cannot be written", maxFileBytes)
	}
	source, err := openFolder(from)
	if err != nil {
		return err
	}
	defer source.Close()
	tensors := source.Tensors()
	if d != "" {
		for i := range tensors {
			tensors[i].DType = d
		}
	}
	if err := carryConfig(to, from, source.tensors, tensors); err != nil {
		return err
	}
	files := divide(tensors, maxFileBytes)
	if err := writePlanned(to, files, len(files) > 1, source.Float32To); err != nil {
		return fmt.Errorf("converting %q: %w", from, err)
	}
	if err := carryValueHead(to, from); err != nil {
		return err
	}
	return CarryFiles(to, from)
}

// divide shares out tensors to files in order, as many to each as fit.
func divide(tensors []policy.Tensor, maxFileBytes int64) []plannedFile {
	files := []plannedFile{{}}
	filled := int64(0)
	for i, t := range tensors {
		bytes := int64(t.Elements()) * int64(t.StoredAs().Bytes())
		if maxFileBytes > 0 && filled > 0 && filled+bytes > maxFileBytes {
			files = append(files, plannedFile{})
			filled = 0
		}
		files[len(files)-1].add(i, t.Name, t)
		filled += bytes
	}
	for i := range files {
		files[i].name, files[i].metadata = WeightsFile, ofTorch(nil)
		if len(files) > 1 {
			files[i].name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(files))
		}
	}
	return files
}

// Digest is the identity of a folder's weights, in hexadecimal: the sha256 of
// model.safetensors or, for weights in several files, of what sha256sum prints
// for these files in the order of their names: lines of the file's sha256, two
// spaces and its name.
func Digest(folder string) (string, error) {
	single, err := sumFile(filepath.Join(folder, WeightsFile))
	if !errors.Is(err, os.ErrNotExist) {
		return single, err
	}
	index, err := readIndex(folder)
	if err != nil {
		return "", err
	}
	sums := map[string]string{}
	for _, name := range index.files {
		if sums[name], err = sumFile(filepath.Join(folder, name)); err != nil {
			return "", err
		}
	}
	return DigestOfFiles(sums), nil
}

// DigestOfFiles is the Digest of weights in several files, from the sha256 of
// each by its name.
func DigestOfFiles(sums map[string]string) string {
	var lines []byte
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		lines = fmt.Appendf(lines, "%s  %s\n", sums[name], name)
	}
	digest := sha256.Sum256(lines)
	return hex.EncodeToString(digest[:])
}

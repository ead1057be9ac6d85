package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/shard/foreign"
)

// formatOf is the format of a file of columns, by its name; empty for text.
func formatOf(path string) foreign.Format {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".parquet":
		return foreign.Parquet
	case ".arrow", ".feather":
		return foreign.Arrow
	}
	return ""
}

// readTable reads a file of columns. Its rows go on counting from those before it.
func (r *reader) readTable(f io.ReaderAt, size int64, format foreign.Format) error {
	err := foreign.Rows(f, size, format, func(fields map[string]json.RawMessage) error {
		r.lines++
		if err := r.set.fill(r.path, fields); err != nil {
			return err
		}
		if fault := r.problem(r.lines, fields); fault != "" {
			r.fault(r.lines, fault)
		}
		return nil
	})
	if err != nil {
		return exitcode.Dataf("%s: the file cannot be read as %s: %w", r.path, format, err)
	}
	return nil
}

// savedParts lists the files of a folder that Hugging Face datasets has saved
// (save_to_disk), in the order of their rows. Any other folder is none.
func savedParts(path string) (parts []string, isFolder bool, err error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return nil, false, nil // whoever opens it says what is wrong
	}
	if _, err := os.Stat(filepath.Join(path, "dataset_dict.json")); err == nil {
		return nil, true, exitcode.Dataf("%q holds several splits: name one of its folders", path)
	}
	text, err := plainfile.Read(filepath.Join(path, "state.json"), plainfile.MaxDocument)
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	var state struct {
		Files []struct {
			Name string `json:"filename"`
		} `json:"_data_files"`
		Indices []struct{} `json:"_indices_files"`
	}
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil {
		return nil, true, exitcode.Dataf("%q: state.json is not that of a saved data set: %w", path, err)
	}
	for _, file := range state.Files {
		if !filepath.IsLocal(file.Name) {
			return nil, true, exitcode.Dataf("%q: state.json names %q, which is not in the folder", path, file.Name)
		}
		parts = append(parts, file.Name)
	}
	switch {
	case len(state.Indices) > 0:
		return nil, true, exitcode.Dataf("%q was saved with a selection of its rows: call flatten_indices() before save_to_disk", path)
	case len(parts) == 0:
		return nil, true, exitcode.Dataf("%q: state.json names no files", path)
	}
	return parts, true, nil
}

// readFolder reads the files of a saved data set as one, named as the folder is.
func (s *Set) readFolder(path string, parts []string, source Source, rows *[]Row) ([]env.Task, []env.Input, error) {
	r := s.reader(path, source, rows)
	r.stem = filepath.Base(path)
	var inputs []env.Input
	for _, name := range parts {
		input, err := r.readPart(filepath.Join(path, name))
		if err != nil {
			return nil, nil, err
		}
		inputs = append(inputs, input)
	}
	return r.tasks, inputs, r.finish()
}

func (r *reader) readPart(path string) (env.Input, error) {
	f, size, err := plainfile.Open(path)
	if err != nil {
		return env.Input{}, exitcode.Dataf("%s.files: a saved data set lacks a file: %w", r.where, err)
	}
	defer f.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return env.Input{}, fmt.Errorf("reading problems %q: %w", path, err)
	}
	r.path = path
	return env.Input{Path: path, SHA256: hex.EncodeToString(digest.Sum(nil))}, r.readTable(f, size, foreign.Arrow)
}

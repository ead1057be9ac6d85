// Package export writes what a run has measured in forms that other programs read: CSV,
// event files of TensorBoard, and the files of wandb and trackio by their own libraries.
package export

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/measure"
)

// Point is one measured number.
type Point struct {
	Name  string  // of the summary's key, such as reward_mean, kinds/improve or held_out/accuracy
	Step  int     // iteration, or policy version of an evaluation
	Value float64 // finite
}

// heldOut begins the names of what evaluations measured.
const heldOut = "held_out/"

// Points are the numbers of a summary by finished iteration, then those of its evaluations by
// version under held_out, of other sets than the test split under held_out/SET. What is not
// measured is left out. More iterations add points and change none.
func Points(s measure.Summary) ([]Point, error) {
	var points []Point
	for _, it := range s.Series {
		if it.Iteration > s.IterationsDone {
			break
		}
		if err := flatten(&points, it.Iteration, "", it); err != nil {
			return nil, err
		}
	}
	sets := append([]measure.SetAccuracy{{Versions: s.AccuracyByVersion}}, s.AccuracyBySet...)
	for _, set := range sets {
		for _, v := range set.Versions {
			prefix := heldOut
			if set.Set != "" {
				prefix += set.Set + "/"
			}
			if err := flatten(&points, v.Version, prefix, v); err != nil {
				return nil, err
			}
		}
	}
	return points, nil
}

// flatten adds the numbers of a value, by their keys in JSON.
func flatten(points *[]Point, step int, prefix string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("listing the numbers of step %d: %w", step, err)
	}
	var parsed map[string]any
	if err := json.Unmarshal(text, &parsed); err != nil {
		return fmt.Errorf("listing the numbers of step %d: %w", step, err)
	}
	delete(parsed, "iteration")
	delete(parsed, "version")
	var walk func(name string, value any)
	walk = func(name string, value any) {
		switch v := value.(type) {
		case float64:
			*points = append(*points, Point{name, step, v})
		case bool:
			if v {
				*points = append(*points, Point{name, step, 1})
			}
		case []any:
			for i, part := range v {
				walk(name+"/"+strconv.Itoa(i), part)
			}
		case map[string]any:
			for _, key := range sortedKeys(v) {
				walk(name+"/"+key, v[key])
			}
		}
	}
	for _, key := range sortedKeys(parsed) {
		walk(prefix+key, parsed[key])
	}
	return nil
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// CSV is a table with the columns step, name and value.
func CSV(points []Point) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write([]string{"step", "name", "value"})
	for _, p := range points {
		w.Write([]string{strconv.Itoa(p.Step), p.Name, strconv.FormatFloat(p.Value, 'g', -1, 64)})
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// TensorBoard writes points into event files of a run, in folder/RUNID/training and
// folder/RUNID/held_out, which it makes or continues: TensorBoard, which may be looking, sees
// what is new. It returns the folder of the run.
func TensorBoard(folder string, s measure.Summary, points []Point) (string, error) {
	folder = filepath.Join(folder, s.RunID)
	byFile := map[string][]Point{}
	for _, p := range points {
		name, evaluated := strings.CutPrefix(p.Name, heldOut)
		file := "training"
		if evaluated {
			file = "held_out"
		}
		byFile[file] = append(byFile[file], Point{name, p.Step, p.Value})
	}
	for file, points := range byFile {
		slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.Step, b.Step) })
		path := filepath.Join(folder, file, fmt.Sprintf("events.out.tfevents.%d.lathe", s.Created.Unix()))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return "", err
		}
		if err := Continue(path, events(s.Created, ends(s), points)); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// ends is when each iteration had ended, counted from the start of the run.
func ends(s measure.Summary) map[int]time.Duration {
	at, all := map[int]time.Duration{}, time.Duration(0)
	for _, it := range s.Series {
		if it.WallSeconds != nil {
			all += time.Duration(*it.WallSeconds * float64(time.Second))
		}
		at[it.Iteration] = all
	}
	return at
}

// Continue makes a file's content what is given. Of a file that begins so only the rest is
// written, so that who reads it at the same time sees a file that grows.
func Continue(path string, content []byte) error {
	written, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.HasPrefix(content, written) {
		return os.WriteFile(path, content, 0o666)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content[len(written):])
	return errors.Join(err, f.Close())
}

package dataset

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/lathe-rl/lathe/pkg/env"
)

// Write writes problems as JSONL with the fields id, kind, level,
// question and answer, in bytes that depend on the problems alone.
func Write(w io.Writer, tasks []env.Task) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	for _, task := range tasks {
		row := struct {
			ID       string `json:"id"`
			Kind     string `json:"kind"`
			Level    int    `json:"level"`
			Question string `json:"question"`
			Answer   string `json:"answer"`
		}{task.ID, task.Kind, task.Level, task.Question, task.Answer}
		if err := encoder.Encode(row); err != nil {
			return fmt.Errorf("writing problem %q: %w", task.ID, err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing problems: %w", err)
	}
	return nil
}

package jsonlines

import (
	"encoding/json"
	"fmt"
)

// refusal is the row of a line that could not be answered.
type refusal struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
}

// Refusal makes the row of the line that was read last, which could not be
// answered.
func (r *Reader) Refusal(line []byte, fault error) any {
	return refusal{ID: idOf(line), Error: fmt.Sprintf("line %d: %v", r.Number, fault)}
}

// idOf finds the id of a line, if it has one.
func idOf(line []byte) json.RawMessage {
	var row struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(line, &row) != nil || row.ID == nil {
		return json.RawMessage("null")
	}
	return row.ID
}

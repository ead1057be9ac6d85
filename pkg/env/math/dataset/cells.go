package dataset

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/shard/foreign"
)

// cellKind is the type of a column of a CSV file, as pandas and Hugging Face datasets infer
// it, with two differences: integers stay integers where cells are missing, and words such
// as NA and None are missing values among numbers only, and text elsewhere.
type cellKind int

const (
	textCells  cellKind = iota
	wholeCells          // of any size, without leading zeros and +
	floatCells
	boolCells
)

const (
	maxDigits = 4000    // of an integer: Python reads 4,300
	maxExact  = 1 << 53 // up to which a float holds every integer
)

var (
	wholeText = lazyregexp.New(`^[+-]?[0-9]+$`)
	floatText = lazyregexp.New(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
	// missingWords are what pandas reads as missing.
	missingWords = []string{
		"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
		"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
	}
	boolWords = map[string]bool{"True": true, "TRUE": true, "true": true, "False": false, "FALSE": false, "false": false}
)

// kindOf is the kind of a column.
func kindOf(records [][]string, column int) cellKind {
	fits := []cellKind{wholeCells, floatCells, boolCells}
	some := false
	for _, record := range records {
		cell := strings.TrimSpace(record[column])
		if slices.Contains(missingWords, cell) {
			continue
		}
		some = true
		fits = slices.DeleteFunc(fits, func(k cellKind) bool { return !k.fits(cell) })
		if len(fits) == 0 {
			return textCells
		}
	}
	if !some {
		return textCells
	}
	return fits[0]
}

func (k cellKind) fits(cell string) (ok bool) {
	switch k {
	case wholeCells:
		return len(cell) <= maxDigits && wholeText().MatchString(cell)
	case floatCells:
		_, ok = floatOf(cell)
	case boolCells:
		_, ok = boolWords[cell]
	}
	return ok
}

// floatOf parses a cell. An integer that a float cannot hold is not a float: as text it loses
// no digits.
func floatOf(cell string) (float64, bool) {
	switch strings.TrimLeft(strings.ToLower(cell), "+-") {
	case "inf", "infinity":
		return math.Inf(1 - 2*strings.Count(cell, "-")), len(cell) <= len("+infinity")
	}
	value, err := strconv.ParseFloat(cell, 64)
	if wholeText().MatchString(cell) && math.Abs(value) > maxExact {
		return 0, false
	}
	return value, err == nil && floatText().MatchString(cell)
}

// value is a cell as JSON; one that is missing is null.
func (k cellKind) value(cell string) json.RawMessage {
	trimmed := strings.TrimSpace(cell)
	switch {
	case cell == "", k != textCells && slices.Contains(missingWords, trimmed):
		return json.RawMessage("null")
	case k == textCells:
		return quoted(cell)
	case k == boolCells:
		return strconv.AppendBool(nil, boolWords[trimmed])
	case k == floatCells:
		value, _ := floatOf(trimmed) // it fits
		return foreign.Float(value)
	}
	return wholeOf(trimmed)
}

// wholeOf is a whole number as JSON has it.
func wholeOf(cell string) json.RawMessage {
	digits := strings.TrimLeft(strings.TrimLeft(cell, "+-"), "0")
	switch {
	case digits == "":
		return json.RawMessage("0")
	case cell[0] == '-':
		digits = "-" + digits
	}
	return json.RawMessage(digits)
}

package python

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Repr is repr(v).
func Repr(v Value) string {
	var out strings.Builder
	writeRepr(&out, v)
	return out.String()
}

// String is str(v).
func String(v Value) string {
	if text, ok := v.(string); ok {
		return text
	}
	return Repr(v)
}

func writeRepr(out *strings.Builder, v Value) {
	switch v := v.(type) {
	case nil:
		out.WriteString("None")
	case bool:
		if v {
			out.WriteString("True")
		} else {
			out.WriteString("False")
		}
	case int64:
		out.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		out.WriteString(v.String())
	case float64:
		out.WriteString(floatRepr(v))
	case string:
		writeStringRepr(out, v)
	case Number:
		out.WriteString(string(v))
	case *List:
		left, right := byte('['), byte(']')
		if v.Tuple {
			left, right = '(', ')'
		}
		out.WriteByte(left)
		for i, item := range v.Items {
			if i > 0 {
				out.WriteString(", ")
			}
			writeRepr(out, item)
		}
		if v.Tuple && len(v.Items) == 1 {
			out.WriteByte(',')
		}
		out.WriteByte(right)
	case *Dict:
		out.WriteByte('{')
		for i, key := range v.keys {
			if i > 0 {
				out.WriteString(", ")
			}
			writeRepr(out, key)
			out.WriteString(": ")
			writeRepr(out, v.values[i])
		}
		out.WriteByte('}')
	case *Set:
		if len(v.members) == 0 {
			out.WriteString("set()")
			return
		}
		for i, member := range v.Sorted() {
			out.WriteString([]string{"{", ", "}[min(i, 1)])
			out.WriteString(strconv.FormatInt(member, 10))
		}
		out.WriteByte('}')
	}
}

// floatRepr writes the shortest digits that give the same float back.
func floatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	scientific := strconv.FormatFloat(f, 'e', -1, 64)
	exponent, _ := strconv.Atoi(scientific[strings.IndexByte(scientific, 'e')+1:])
	if exponent < -4 || exponent >= 16 {
		return scientific
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func writeStringRepr(out *strings.Builder, s string) {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	out.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(out, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(out, `\u%04x`, r)
		default:
			fmt.Fprintf(out, `\U%08x`, r)
		}
	}
	out.WriteRune(quote)
}

// JSON is json.dumps(v): ASCII only, ", " and ": " between items. It is false
// for a value that holds a set or a number of a foreign type.
func JSON(v Value) (string, bool) {
	var out strings.Builder
	ok := writeJSON(&out, v)
	return out.String(), ok
}

func writeJSON(out *strings.Builder, v Value) bool {
	switch v := v.(type) {
	case nil:
		out.WriteString("null")
	case bool:
		out.WriteString(strconv.FormatBool(v))
	case int64, *big.Int:
		writeRepr(out, v)
	case float64:
		switch {
		case math.IsNaN(v):
			out.WriteString("NaN")
		case math.IsInf(v, 1):
			out.WriteString("Infinity")
		case math.IsInf(v, -1):
			out.WriteString("-Infinity")
		default:
			out.WriteString(floatRepr(v))
		}
	case string:
		writeJSONString(out, v)
	case *List:
		out.WriteByte('[')
		for i, item := range v.Items {
			if i > 0 {
				out.WriteString(", ")
			}
			if !writeJSON(out, item) {
				return false
			}
		}
		out.WriteByte(']')
	case *Dict:
		out.WriteByte('{')
		for i, key := range v.keys {
			if i > 0 {
				out.WriteString(", ")
			}
			if text, ok := key.(string); ok {
				writeJSONString(out, text)
			} else {
				out.WriteByte('"')
				writeJSON(out, key)
				out.WriteByte('"')
			}
			out.WriteString(": ")
			if !writeJSON(out, v.values[i]) {
				return false
			}
		}
		out.WriteByte('}')
	default:
		return false
	}
	return true
}

func writeJSONString(out *strings.Builder, s string) {
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == '\b':
			out.WriteString(`\b`)
		case r == '\f':
			out.WriteString(`\f`)
		case r >= ' ' && r <= '~':
			out.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(out, `\u%04x\u%04x`, high, low)
		}
	}
	out.WriteByte('"')
}

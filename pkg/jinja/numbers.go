package jinja

import (
	"math"
	"strconv"
	"strings"
)

func toInteger(r *run, a args, v Value) Value {
	r.known(a.line, v)
	bound := r.bind(a, 0, "default", "base")
	if r.wantInteger(a.line, bound[1], 10) != 10 {
		r.fail(a.line, "int with a base is not implemented")
	}
	if i, ok := whole(v); ok {
		return i
	}
	f, ok := v.(float64)
	if s, isText := v.(string); isText {
		s = strings.ReplaceAll(strings.TrimFunc(s, isSpace), "_", "")
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i
		}
		parsed, err := strconv.ParseFloat(s, 64)
		f, ok = parsed, err == nil
	}
	if !ok || math.IsNaN(f) || math.Abs(f) >= 1<<63 {
		return orElse(bound[0], int64(0))
	}
	return int64(f)
}

func toFloat(r *run, a args, v Value) Value {
	r.known(a.line, v)
	bound := r.bind(a, 0, "default")
	if f, ok := number(v); ok {
		return f
	}
	if s, ok := v.(string); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(s, isSpace), 64); err == nil {
			return f
		}
	}
	return orElse(bound[0], 0.0)
}

func round(r *run, a args, v Value) Value {
	bound := r.bind(a, 0, "precision", "method")
	f, ok := number(v)
	digits := r.wantInteger(a.line, bound[0], 0)
	if !ok || digits < 0 || digits > 15 {
		r.fail(a.line, "round wants a number and a precision from 0 to 15")
	}
	factor := math.Pow(10, float64(digits))
	switch orElse(bound[1], "common") {
	case "common":
		if i, ok := whole(v); ok {
			return i
		}
		f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(digits), 64), 64)
	case "ceil":
		f = math.Ceil(f*factor) / factor
	case "floor":
		f = math.Floor(f*factor) / factor
	default:
		r.fail(a.line, "round goes by common, ceil or floor")
	}
	return f
}

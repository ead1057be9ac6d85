package foreign

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// The functions here append a value as JSON.

var null = []byte("null")

func appendText(to, text []byte) ([]byte, error) {
	if len(text) > MaxRowBytes {
		return within(append(to, text...))
	}
	if !utf8.Valid(text) {
		return to, errors.New("the text is not UTF-8: convert it to UTF-8, or write the column as bytes")
	}
	return appendQuoted(to, text), nil
}

func appendQuoted(to, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			line, _ := plainjson.Line(string(text)) // a text always can be
			return append(to, line...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}

// appendBytes writes bytes that may be a text: writers of old do not say which columns are
// texts.
func appendBytes(to, value []byte) ([]byte, error) {
	if len(value) > MaxRowBytes || utf8.Valid(value) {
		return appendText(to, value)
	}
	return appendBase64(to, value), nil
}

func appendBase64(to, value []byte) []byte {
	to = append(to, '"')
	to = base64.StdEncoding.AppendEncode(to, value)
	return append(to, '"')
}

// Float is a number as those of tables are: with all digits, and NaN and the infinities as
// texts.
func Float(value float64) json.RawMessage { return appendFloat(nil, value) }

// appendFloat writes a number as short as it can be for its bits as a float64, and so that
// it is read as a float again: 5.0.
func appendFloat(to []byte, value float64) []byte {
	switch {
	case math.IsNaN(value):
		return append(to, `"nan"`...)
	case math.IsInf(value, 1):
		return append(to, `"inf"`...)
	case math.IsInf(value, -1):
		return append(to, `"-inf"`...)
	}
	line, _ := plainjson.Line(value) // a finite number always can be
	to = append(to, line...)
	if !bytes.ContainsAny(line, ".e") {
		to = append(to, ".0"...)
	}
	return to
}

func appendBool(to []byte, value bool) []byte { return strconv.AppendBool(to, value) }

// Bounds of decimals: Arrow has 76 digits at most.
const (
	maxDecimalBytes = 128
	maxScale        = 1000
)

// appendDecimal writes unscaled ÷ 10^scale with all of its digits.
func appendDecimal(to []byte, unscaled *big.Int, scale int) []byte {
	digits := new(big.Int).Abs(unscaled).String()
	to = append(to, '"')
	if unscaled.Sign() < 0 {
		to = append(to, '-')
	}
	switch {
	case scale <= 0:
		to = append(to, digits...)
		for range -scale * unscaled.CmpAbs(new(big.Int)) { // 0 has no zeros behind it
			to = append(to, '0')
		}
	default:
		for len(digits) <= scale {
			digits = "0" + digits
		}
		at := len(digits) - scale
		to = append(append(append(to, digits[:at]...), '.'), digits[at:]...)
	}
	return append(to, '"')
}

// twosComplement is the number that bytes are, the highest first.
func twosComplement(value []byte) *big.Int {
	n := new(big.Int).SetBytes(value)
	if len(value) > 0 && value[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(value))))
	}
	return n
}

func appendUUID(to, value []byte) []byte {
	to = append(to, '"')
	for i, end := range []int{4, 6, 8, 10, 16} {
		start := []int{0, 4, 6, 8, 10}[i]
		if i > 0 {
			to = append(to, '-')
		}
		to = hex.AppendEncode(to, value[start:end])
	}
	return append(to, '"')
}

const (
	daySeconds = 24 * 60 * 60
	// A time further away, some 290 million years, is none that was meant; milliseconds
	// of 64 bits do not reach further.
	maxSeconds = math.MaxInt64/1000 + 1
)

// appendMoment writes a time that is so many units of a second away from 1970.
func appendMoment(to []byte, units, perSecond int64, utc bool) ([]byte, error) {
	seconds, rest := floorDivide(units, perSecond)
	return appendSeconds(to, seconds, rest*(1e9/perSecond), utc)
}

func floorDivide(n, by int64) (quotient, rest int64) {
	if n%by < 0 {
		return n/by - 1, n%by + by
	}
	return n / by, n % by
}

func appendSeconds(to []byte, seconds, nanos int64, utc bool) ([]byte, error) {
	if seconds < -maxSeconds || seconds > maxSeconds {
		return to, errors.New("the time is more than 290 million years from 1970: correct it")
	}
	to = append(to, '"')
	to = appendDay(to, time.Unix(seconds, 0).UTC(), "-01-02T15:04:05")
	to = appendFraction(to, nanos)
	if utc {
		to = append(to, "+00:00"...)
	}
	return append(to, '"'), nil
}

// appendDay writes the year in four digits, or where it has more or is none of our era
// with a sign (ISO 8601), and the rest by a layout.
func appendDay(to []byte, at time.Time, layout string) []byte {
	if year := at.Year(); year >= 1 && year <= 9999 {
		to = fmt.Appendf(to, "%04d", year)
	} else {
		to = fmt.Appendf(to, "%+06d", year)
	}
	return at.AppendFormat(to, layout)
}

// appendFraction writes the part of a second in 6 digits, or 9 where they are needed.
func appendFraction(to []byte, nanos int64) []byte {
	switch {
	case nanos == 0:
		return to
	case nanos%1000 == 0:
		return fmt.Appendf(to, ".%06d", nanos/1000)
	}
	return fmt.Appendf(to, ".%09d", nanos)
}

// appendDate writes the day that is so many days away from 1970.
func appendDate(to []byte, days int64) ([]byte, error) {
	if days < -maxSeconds/daySeconds || days > maxSeconds/daySeconds {
		return to, errors.New("the date is more than 290 million years from 1970: correct it")
	}
	to = append(to, '"')
	to = appendDay(to, time.Unix(days*daySeconds, 0).UTC(), "-01-02")
	return append(to, '"'), nil
}

// appendClock writes a time of day.
func appendClock(to []byte, units, perSecond int64) ([]byte, error) {
	if units < 0 || units >= daySeconds*perSecond {
		return to, errors.New("the time of day is not between 00:00 and 24:00")
	}
	to = append(to, '"')
	to = time.Unix(units/perSecond, 0).UTC().AppendFormat(to, time.TimeOnly)
	to = appendFraction(to, units%perSecond*(1e9/perSecond))
	return append(to, '"'), nil
}

// appendInterval writes parts of an interval by their names.
func appendInterval(to []byte, names []string, parts ...int64) []byte {
	to = append(to, '{')
	for i, part := range parts {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(append(appendQuoted(to, []byte(names[i])), ':'), part, 10)
	}
	return append(to, '}')
}

// halfFloat is the number that 16 bits are (IEEE 754).
func halfFloat(bits uint16) float64 {
	sign := 1.0
	if bits&0x8000 != 0 {
		sign = -1
	}
	exponent, fraction := int(bits>>10&0x1F), float64(bits&0x3FF)
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 0x1F:
		if fraction != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(fraction+1024, exponent-25)
}

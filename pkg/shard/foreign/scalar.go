package foreign

import (
	"fmt"
	"math/big"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/apache/arrow/go/v17/arrow/ipc"
)

// scalarAppender is that of an array of Arrow with no others inside.
func scalarAppender(a arrow.Array, metadata arrow.Metadata) (arrowAppender, error) {
	switch a := a.(type) {
	case *array.Null:
		return func(to []byte, _ int) ([]byte, error) { return append(to, null...), nil }, nil
	case *array.Boolean:
		return func(to []byte, i int) ([]byte, error) { return appendBool(to, a.Value(i)), nil }, nil
	case interface{ Value(int) string }: // String, LargeString, StringView
		return func(to []byte, i int) ([]byte, error) { return appendText(to, []byte(a.Value(i))) }, nil
	case *array.FixedSizeBinary:
		if name, ok := metadata.GetValue(ipc.ExtensionTypeKeyName); ok && name == "arrow.uuid" && a.DataType().(*arrow.FixedSizeBinaryType).ByteWidth == 16 {
			return func(to []byte, i int) ([]byte, error) { return appendUUID(to, a.Value(i)), nil }, nil
		}
		return func(to []byte, i int) ([]byte, error) { return appendBase64(to, a.Value(i)), nil }, nil
	case interface{ Value(int) []byte }: // Binary, LargeBinary, BinaryView
		return func(to []byte, i int) ([]byte, error) { return appendBytes(to, a.Value(i)) }, nil
	case *array.Float64:
		return func(to []byte, i int) ([]byte, error) { return appendFloat(to, a.Value(i)), nil }, nil
	case *array.Float32:
		return func(to []byte, i int) ([]byte, error) { return appendFloat(to, float64(a.Value(i))), nil }, nil
	case interface{ Value(int) float16.Num }:
		return func(to []byte, i int) ([]byte, error) {
			return appendFloat(to, halfFloat(a.Value(i).Uint16())), nil
		}, nil
	case *array.Decimal128:
		return arrowDecimal(a.DataType(), func(i int) *big.Int { return a.Value(i).BigInt() })
	case *array.Decimal256:
		return arrowDecimal(a.DataType(), func(i int) *big.Int { return a.Value(i).BigInt() })
	case *array.MonthInterval:
		return func(to []byte, i int) ([]byte, error) {
			return appendInterval(to, []string{"months"}, int64(a.Value(i))), nil
		}, nil
	case *array.DayTimeInterval:
		return func(to []byte, i int) ([]byte, error) {
			v := a.Value(i)
			return appendInterval(to, []string{"days", "milliseconds"}, int64(v.Days), int64(v.Milliseconds)), nil
		}, nil
	case *array.MonthDayNanoInterval:
		return func(to []byte, i int) ([]byte, error) {
			v := a.Value(i)
			return appendInterval(to, []string{"months", "days", "nanoseconds"}, int64(v.Months), int64(v.Days), v.Nanoseconds), nil
		}, nil
	}
	if times := timeAppender(a); times != nil {
		return times, nil
	}
	return wholeAppender(a)
}

func arrowDecimal(t arrow.DataType, value func(int) *big.Int) (arrowAppender, error) {
	scale := int(t.(arrow.DecimalType).GetScale())
	if scale < -maxScale || scale > maxScale {
		return nil, fmt.Errorf("the schema is damaged: a decimal has the scale %d", scale)
	}
	return func(to []byte, i int) ([]byte, error) { return appendDecimal(to, value(i), scale), nil }, nil
}

func timeAppender(a arrow.Array) arrowAppender {
	switch a := a.(type) {
	case *array.Timestamp:
		t := a.DataType().(*arrow.TimestampType)
		perSecond := arrowPerSecond(t.Unit)
		return func(to []byte, i int) ([]byte, error) {
			return appendMoment(to, int64(a.Value(i)), perSecond, t.TimeZone != "")
		}
	case *array.Date32:
		return func(to []byte, i int) ([]byte, error) { return appendDate(to, int64(a.Value(i))) }
	case *array.Date64:
		return func(to []byte, i int) ([]byte, error) {
			days, _ := floorDivide(int64(a.Value(i)), daySeconds*1000)
			return appendDate(to, days)
		}
	case *array.Time32:
		perSecond := arrowPerSecond(a.DataType().(*arrow.Time32Type).Unit)
		return func(to []byte, i int) ([]byte, error) { return appendClock(to, int64(a.Value(i)), perSecond) }
	case *array.Time64:
		perSecond := arrowPerSecond(a.DataType().(*arrow.Time64Type).Unit)
		return func(to []byte, i int) ([]byte, error) { return appendClock(to, int64(a.Value(i)), perSecond) }
	}
	return nil
}

func arrowPerSecond(unit arrow.TimeUnit) int64 { return int64(1e9 / unit.Multiplier()) }

// wholeAppender is that of whole numbers, and of durations, which are the numbers of their units.
func wholeAppender(a arrow.Array) (arrowAppender, error) {
	switch a := a.(type) {
	case *array.Int8:
		return wholes(func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Int16:
		return wholes(func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Int32:
		return wholes(func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Int64:
		return wholes(a.Value), nil
	case *array.Uint8:
		return wholes(func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Uint16:
		return wholes(func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Uint32:
		return wholes(func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Uint64:
		return func(to []byte, i int) ([]byte, error) { return strconv.AppendUint(to, a.Value(i), 10), nil }, nil
	case *array.Duration:
		return wholes(func(i int) int64 { return int64(a.Value(i)) }), nil
	}
	return nil, fmt.Errorf("the type %s is not supported: cast the column to text", a.DataType())
}

func wholes(value func(int) int64) arrowAppender {
	return func(to []byte, i int) ([]byte, error) { return strconv.AppendInt(to, value(i), 10), nil }
}

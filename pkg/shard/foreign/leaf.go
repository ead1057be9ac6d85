package foreign

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// appender appends a value of a column of Parquet, as PLAIN has it, as JSON.
type appender func(to, value []byte) ([]byte, error)

// annotation is the logical type of a column of Parquet, whether the schema says it
// in the old form or in the new.
func annotation(e *format.SchemaElement) format.LogicalTypeValue {
	if e.LogicalType.Value != nil {
		return e.LogicalType.Value
	}
	old, ok := e.ConvertedType.Get()
	if !ok {
		return nil
	}
	whole := func(bits int8, signed bool) format.LogicalTypeValue {
		return &format.IntType{BitWidth: bits, IsSigned: signed}
	}
	millis, micros := format.TimeUnit{Value: new(format.MilliSeconds)}, format.TimeUnit{Value: new(format.MicroSeconds)}
	switch old {
	case deprecated.UTF8:
		return new(format.StringType)
	case deprecated.Map, deprecated.MapKeyValue:
		return new(format.MapType)
	case deprecated.List:
		return new(format.ListType)
	case deprecated.Enum:
		return new(format.EnumType)
	case deprecated.Decimal:
		return &format.DecimalType{Scale: e.Scale.V, Precision: e.Precision.V}
	case deprecated.Date:
		return new(format.DateType)
	case deprecated.TimeMillis:
		return &format.TimeType{Unit: millis}
	case deprecated.TimeMicros:
		return &format.TimeType{Unit: micros}
	case deprecated.TimestampMillis:
		return &format.TimestampType{Unit: millis, IsAdjustedToUTC: true}
	case deprecated.TimestampMicros:
		return &format.TimestampType{Unit: micros, IsAdjustedToUTC: true}
	case deprecated.Uint8:
		return whole(8, false)
	case deprecated.Uint16:
		return whole(16, false)
	case deprecated.Uint32:
		return whole(32, false)
	case deprecated.Uint64:
		return whole(64, false)
	case deprecated.Int8:
		return whole(8, true)
	case deprecated.Int16:
		return whole(16, true)
	case deprecated.Int32:
		return whole(32, true)
	case deprecated.Int64:
		return whole(64, true)
	case deprecated.Json:
		return new(format.JsonType)
	case deprecated.Bson:
		return new(format.BsonType)
	}
	return nil
}

// shownAs is what the values of a leaf become.
func shownAs(e *element) Kind {
	switch annotation(e.SchemaElement).(type) {
	case *format.NullType:
		return Nulls
	case *format.IntType, *format.Float16Type:
		return Numbers
	case nil:
		switch old, annotated := e.ConvertedType.Get(); {
		case annotated && old == deprecated.Interval:
			return Objects
		case e.Type.V == format.Boolean:
			return Bools
		case e.Type.V == format.Int32, e.Type.V == format.Int64, e.Type.V == format.Float, e.Type.V == format.Double:
			return Numbers
		}
	}
	return Texts
}

// leafAppender is how values of a column become JSON.
func leafAppender(e *format.SchemaElement, physical format.Type, length int) (appender, error) {
	logical := annotation(e)
	wrong := func() (appender, error) {
		return nil, fmt.Errorf("the schema is damaged: values of type %s cannot be %s", physical, logical)
	}
	is := func(types ...format.Type) bool {
		for _, t := range types {
			if t == physical {
				return true
			}
		}
		return false
	}
	whole := is(format.Int32, format.Int64)
	switch t := logical.(type) {
	case nil:
		if old, ok := e.ConvertedType.Get(); ok && old == deprecated.Interval && is(format.FixedLenByteArray) && length == 12 {
			return appendParquetInterval, nil
		}
		return physicalAppender(physical)
	case *format.StringType, *format.EnumType, *format.JsonType:
		if !is(format.ByteArray, format.FixedLenByteArray) {
			return wrong()
		}
		return appendText, nil
	case *format.BsonType, *format.GeometryType, *format.GeographyType:
		if !is(format.ByteArray) {
			return wrong()
		}
		return appendBytes, nil
	case *format.DecimalType:
		return decimalAppender(int(t.Scale), physical)
	case *format.IntType:
		if !whole || t.BitWidth == 64 != is(format.Int64) || (t.BitWidth != 8 && t.BitWidth != 16 && t.BitWidth != 32 && t.BitWidth != 64) {
			return wrong()
		}
		return intAppender(int(t.BitWidth), t.IsSigned), nil
	case *format.DateType:
		if !is(format.Int32) {
			return wrong()
		}
		return func(to, v []byte) ([]byte, error) { return appendDate(to, signed(v)) }, nil
	case *format.TimeType:
		perSecond := unitsPerSecond(t.Unit)
		if !whole || perSecond == 0 || perSecond == 1e3 != is(format.Int32) {
			return wrong()
		}
		return func(to, v []byte) ([]byte, error) { return appendClock(to, signed(v), perSecond) }, nil
	case *format.TimestampType:
		perSecond := unitsPerSecond(t.Unit)
		if !is(format.Int64) || perSecond == 0 {
			return wrong()
		}
		return func(to, v []byte) ([]byte, error) { return appendMoment(to, signed(v), perSecond, t.IsAdjustedToUTC) }, nil
	case *format.UUIDType:
		if !is(format.FixedLenByteArray) || length != 16 {
			return wrong()
		}
		return func(to, v []byte) ([]byte, error) { return appendUUID(to, v), nil }, nil
	case *format.Float16Type:
		if !is(format.FixedLenByteArray) || length != 2 {
			return wrong()
		}
		return func(to, v []byte) ([]byte, error) {
			return appendFloat(to, halfFloat(binary.LittleEndian.Uint16(v))), nil
		}, nil
	case *format.NullType:
		return func(to, _ []byte) ([]byte, error) {
			return to, errors.New("the file is damaged: a column of nulls has a value")
		}, nil
	}
	return wrong()
}

func unitsPerSecond(u format.TimeUnit) int64 {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return 1e3
	case *format.MicroSeconds:
		return 1e6
	case *format.NanoSeconds:
		return 1e9
	}
	return 0
}

// signed is a number of 4 or 8 bytes.
func signed(v []byte) int64 {
	if len(v) == 4 {
		return int64(int32(binary.LittleEndian.Uint32(v)))
	}
	return int64(binary.LittleEndian.Uint64(v))
}

func physicalAppender(physical format.Type) (appender, error) {
	switch physical {
	case format.Boolean:
		return func(to, v []byte) ([]byte, error) { return appendBool(to, v[0] != 0), nil }, nil
	case format.Int32, format.Int64:
		return func(to, v []byte) ([]byte, error) { return strconv.AppendInt(to, signed(v), 10), nil }, nil
	case format.Int96:
		return appendInt96, nil
	case format.Float:
		return func(to, v []byte) ([]byte, error) {
			return appendFloat(to, float64(math.Float32frombits(binary.LittleEndian.Uint32(v)))), nil
		}, nil
	case format.Double:
		return func(to, v []byte) ([]byte, error) {
			return appendFloat(to, math.Float64frombits(binary.LittleEndian.Uint64(v))), nil
		}, nil
	case format.ByteArray:
		return appendBytes, nil
	case format.FixedLenByteArray:
		return func(to, v []byte) ([]byte, error) { return appendBase64(to, v), nil }, nil
	}
	return nil, fmt.Errorf("the schema is damaged: there is no type %d of values", physical)
}

// intAppender writes whole numbers, which must have no more bits than they state.
func intAppender(bits int, isSigned bool) appender {
	return func(to, v []byte) ([]byte, error) {
		n := signed(v)
		if isSigned {
			if n != n<<(64-bits)>>(64-bits) {
				return to, fmt.Errorf("the number %d does not fit into %d bits", n, bits)
			}
			return strconv.AppendInt(to, n, 10), nil
		}
		u := uint64(n)
		if len(v) == 4 {
			u = uint64(uint32(n))
		}
		if bits < 64 && u>>bits != 0 {
			return to, fmt.Errorf("the number %d does not fit into %d bits", u, bits)
		}
		return strconv.AppendUint(to, u, 10), nil
	}
}

func decimalAppender(scale int, physical format.Type) (appender, error) {
	if scale < 0 || scale > maxScale {
		return nil, fmt.Errorf("the schema is damaged: a decimal has the scale %d", scale)
	}
	switch physical {
	case format.Int32, format.Int64:
		return func(to, v []byte) ([]byte, error) { return appendDecimal(to, big.NewInt(signed(v)), scale), nil }, nil
	case format.ByteArray, format.FixedLenByteArray:
		return func(to, v []byte) ([]byte, error) {
			if len(v) > maxDecimalBytes || len(v) == 0 {
				return to, fmt.Errorf("the decimal has %d bytes: 1 to %d are supported", len(v), maxDecimalBytes)
			}
			return appendDecimal(to, twosComplement(v), scale), nil
		}, nil
	}
	return nil, fmt.Errorf("the schema is damaged: values of type %s cannot be decimals", physical)
}

// appendInt96 writes a time of old writers: nanoseconds of a day, and the day by its
// Julian number.
func appendInt96(to, v []byte) ([]byte, error) {
	const epoch = 2440588 // the Julian number of 1970-01-01
	nanos := int64(binary.LittleEndian.Uint64(v))
	seconds := (int64(binary.LittleEndian.Uint32(v[8:])) - epoch) * daySeconds
	whole, rest := floorDivide(nanos, 1e9)
	return appendSeconds(to, seconds+whole, rest, false)
}

func appendParquetInterval(to, v []byte) ([]byte, error) {
	part := func(at int) int64 { return int64(binary.LittleEndian.Uint32(v[at:])) }
	return appendInterval(to, []string{"months", "days", "milliseconds"}, part(0), part(4), part(8)), nil
}

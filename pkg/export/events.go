package export

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"
)

// events are points as TensorBoard reads them: a record of the version, then one of each
// point. A record is a message of type Event (tensorflow/core/util/event.proto) in the frame
// of TFRecord: its length in 8 bytes, a checksum of that, the message, a checksum of it.
func events(created time.Time, ends map[int]time.Duration, points []Point) []byte {
	var b []byte
	b = record(b, event(created, 0, field(nil, 3, []byte("brain.Event:2"))))
	for _, p := range points {
		value := field(nil, 1, []byte(p.Name)) // Summary.Value: tag, simple_value
		value = binary.LittleEndian.AppendUint32(append(value, 2<<3|fixed32), math.Float32bits(float32(p.Value)))
		summary := field(nil, 1, value)
		b = record(b, event(created.Add(ends[p.Step]), p.Step, field(nil, 5, summary)))
	}
	return b
}

// The wire types of protocol buffers.
const (
	varint  = 0
	fixed64 = 1
	bytesOf = 2
	fixed32 = 5
)

// event is a message of type Event: wall_time, step, and what.
func event(at time.Time, step int, what []byte) []byte {
	seconds := float64(at.UnixNano()) / 1e9
	b := binary.LittleEndian.AppendUint64([]byte{1<<3 | fixed64}, math.Float64bits(seconds))
	if step != 0 {
		b = binary.AppendUvarint(append(b, 2<<3|varint), uint64(step))
	}
	return append(b, what...)
}

// field appends a field of bytes.
func field(b []byte, number byte, value []byte) []byte {
	b = binary.AppendUvarint(append(b, number<<3|bytesOf), uint64(len(value)))
	return append(b, value...)
}

func record(b, message []byte) []byte {
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(message)))
	b = append(b, length...)
	b = binary.LittleEndian.AppendUint32(b, masked(length))
	b = append(b, message...)
	return binary.LittleEndian.AppendUint32(b, masked(message))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is TFRecord's checksum.
func masked(b []byte) uint32 {
	sum := crc32.Checksum(b, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

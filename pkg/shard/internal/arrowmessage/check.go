package arrowmessage

import (
	"encoding/binary"

	"github.com/klauspost/compress/zstd"
)

// The kinds of messages, and numbers of their fields, as Message.fbs, Schema.fbs and
// File.fbs have them.
const (
	schemaKind     = 1
	dictionaryKind = 2
	recordKind     = 3

	messageVersion, messageKind, messageHeader, messageBody = 0, 1, 2, 3
	schemaFields, schemaMetadata                            = 1, 2
	fieldTypeKind, fieldType, fieldDictionary               = 2, 3, 4
	fieldChildren, fieldMetadata                            = 5, 6
	intType, intWidth, intSigned                            = 2, 0, 1
	unionMode, unionIDs                                     = 0, 1
	encodingID, encodingIndex                               = 0, 1
	dictionaryID, dictionaryData, dictionaryDelta           = 0, 1, 2
	recordLength, recordNodes, recordBuffers, recordViews   = 0, 1, 2, 4
	recordCompression, compressionCodec, zstdCodec          = 3, 0, 1
	footerSchema, footerDictionaries, footerRecords         = 1, 2, 3
)

// The kinds of types that have other than two buffers.
const (
	nullType, binaryType, textType, structType, unionType    = 1, 4, 5, 13, 14
	fixedListType, largeBinaryType, largeTextType, runsType  = 16, 19, 20, 22
	binaryViewType, textViewType, listViewType, bigViewsType = 23, 24, 25, 26
)

// parts counts the arrays and buffers of a batch. The decoder reads past the end of a list
// that has fewer.
type parts struct{ nodes, buffers, views int }

func (p *parts) add(other parts) {
	p.nodes += other.nodes
	p.buffers += other.buffers
	p.views += other.views
}

// walk visits the fields of a schema.
type walk struct {
	left         int // fields that it may still have
	version      int16
	dictionaries map[int64]parts
}

func (w *walk) field(field table, depth int) parts {
	if w.left--; w.left < 0 || depth > maxDepth {
		panic(damaged{})
	}
	field.vector(fieldMetadata, 4)
	kind := field.byte(fieldTypeKind)
	found := parts{nodes: 1, buffers: 2}
	t, ok := field.inside(fieldType)
	if !ok {
		panic(damaged{})
	}
	switch kind {
	case nullType, runsType:
		found.buffers = 0
	case intType:
		t.flag(intSigned)
		if t.int32(intWidth) > 64 {
			panic(wide{})
		}
	case structType, fixedListType:
		found.buffers = 1
	case binaryType, textType, largeBinaryType, largeTextType, listViewType, bigViewsType:
		found.buffers = 3
	case binaryViewType, textViewType:
		found.views = 1
	case unionType:
		t.vector(unionIDs, 4)
		found.buffers = 1 + int(t.int16(unionMode)&1)
		if w.version == oldestVersion {
			found.buffers++
		}
	}
	field.eachInside(fieldChildren, func(child table) { found.add(w.field(child, depth+1)) })
	encoding, ok := field.inside(fieldDictionary)
	if !ok {
		return found
	}
	if index, ok := encoding.inside(encodingIndex); ok {
		index.flag(intSigned)
	}
	w.dictionaries[encoding.int64(encodingID)] = found
	return parts{nodes: 1, buffers: 2}
}

// checkRecord checks a batch that must have the given parts.
func checkRecord(record table, body []byte, of parts) {
	word := func(at int) int64 { return int64(binary.LittleEndian.Uint64(record.data[at:])) }
	if record.int64(recordLength) < 0 {
		panic(damaged{})
	}
	const pair = 16
	at, nodes := record.vector(recordNodes, pair)
	for i := range nodes { // length and nulls of an array
		if length, nulls := word(at+pair*i), word(at+pair*i+8); nulls < 0 || nulls > length {
			panic(damaged{})
		}
	}
	compression, packed := record.inside(recordCompression)
	packed = packed && compression.byte(compressionCodec) == zstdCodec
	at, buffers := record.vector(recordBuffers, pair)
	for i := range buffers { // offset and length of a buffer
		if offset, length := word(at+pair*i), word(at+pair*i+8); offset < 0 || length < 0 || offset > int64(len(body))-length {
			panic(damaged{})
		} else if packed {
			checkWindow(body[offset : offset+length])
		}
	}
	at, views := record.vector(recordViews, 8)
	if nodes < of.nodes || views < of.views {
		panic(damaged{})
	}
	needed := int64(of.buffers)
	for i := range of.views { // buffers beside the two of a view
		count := word(at + 8*i)
		if count < 0 || count > int64(buffers) {
			panic(damaged{})
		}
		needed += count
	}
	if int64(buffers) < needed {
		panic(damaged{})
	}
}

// maxWindowBytes bounds what the decoder of zstd allocates for a frame header: the window of
// its highest level.
const maxWindowBytes = 128 << 20

// checkWindow checks a zstd buffer, which starts with its uncompressed length.
func checkWindow(buffer []byte) {
	const length = 8
	if len(buffer) <= length || int64(binary.LittleEndian.Uint64(buffer)) < 0 {
		return // empty, or not compressed
	}
	var header zstd.Header
	if header.Decode(buffer[length:]) != nil || header.WindowSize > maxWindowBytes {
		panic(damaged{})
	}
}

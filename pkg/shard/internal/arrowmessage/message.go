// Package arrowmessage splits Arrow IPC files and streams into messages and checks each
// message before Arrow's decoder reads it. The decoder allocates what a message claims to
// hold, reads past the end of short lists, and recurses without a bound; a message that
// passes the checks triggers none of this.
package arrowmessage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

const (
	maxMetadataBytes = 64 << 20 // of one message
	maxFields        = 1 << 16  // of a schema, at all depths
	maxDepth         = 64
	oldestVersion    = 3 // V4, of Arrow 0.8
	newestVersion    = 4 // V5
)

// Errors of files that cannot be read.
var (
	ErrDamaged  = errors.New("it is damaged, or not Arrow IPC: copy it again, or write it again")
	ErrVersion  = errors.New("its version of Arrow IPC is not supported: write it with metadata version V5")
	ErrReplaced = errors.New("it replaces the dictionary of a column: unify the dictionaries and write it again")
	ErrWide     = errors.New("integers of more than 64 bits are not supported: cast the column to DECIMAL or text")
	ErrCut      = errors.New("it is cut off: copy it again")
)

// Reader reads messages, as [ipc.NewReaderFromMessageReader] takes them.
type Reader struct {
	r       io.ReaderAt
	size    int64
	blocks  []block // of a file
	schema  []byte  // of a file: the message that is made of its footer
	at      int64   // in a stream
	isFile  bool
	current *ipc.Message
	defined map[int64]bool // dictionaries that have come
	record  parts          // that a batch of the schema has
	// dictionaries has the parts of the dictionaries that the schema names.
	dictionaries map[int64]parts
}

// block says where a message of a file lies.
type block struct {
	at   int64
	body int64
	kind byte
}

var magic = []byte("ARROW1")

// New reads a file or a stream.
func New(r io.ReaderAt, size int64) (_ *Reader, err error) {
	defer recovered(&err)
	reader := &Reader{r: r, size: size, defined: map[int64]bool{}, dictionaries: map[int64]parts{}}
	head := make([]byte, len(magic))
	if size < int64(len(head)) {
		return nil, ErrCut
	}
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if string(head) == string(magic) {
		reader.isFile = true
		return reader, reader.footer()
	}
	return reader, nil
}

// CheckSchema checks the schema of the message that data start with.
func CheckSchema(data []byte) error {
	r, err := New(bytes.NewReader(data), int64(len(data)))
	if err == nil {
		_, err = r.Message()
	}
	return err
}

func recovered(err *error) {
	switch fault := recover().(type) {
	case nil:
	case damaged:
		*err = ErrDamaged
	case wide:
		*err = ErrWide
	default:
		panic(fault)
	}
}

// footer reads where the messages of a file lie.
func (r *Reader) footer() error {
	const tail = 10 // length of the footer, and the magic number
	end := make([]byte, tail)
	if r.size < 2*tail {
		return ErrCut
	}
	if _, err := r.r.ReadAt(end, r.size-tail); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end))
	switch {
	case string(end[4:]) != string(magic):
		return ErrCut
	case length > r.size-2*tail, length > maxMetadataBytes:
		return ErrDamaged
	}
	data := make([]byte, length)
	if _, err := r.r.ReadAt(data, r.size-tail-length); err != nil {
		return err
	}
	footer := root(data)
	schema, ok := footer.inside(footerSchema)
	if !ok {
		return ErrDamaged
	}
	r.schema = schemaMessage(data, schema.at, footer.int16(messageVersion))
	for _, part := range []struct {
		field int
		kind  byte
	}{{footerDictionaries, dictionaryKind}, {footerRecords, recordKind}} {
		const size = 24 // offset, length of the metadata, padding, length of the body
		at, n := footer.vector(part.field, size)
		for i := range n {
			b := data[at+size*i:]
			r.blocks = append(r.blocks, block{int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[16:])), part.kind})
		}
	}
	return nil
}

// schemaMessage builds a message from the schema inside a footer: a root and a table with
// the version, the kind and the offset of the schema, followed by the footer.
func schemaMessage(data []byte, schemaAt int, version int16) []byte {
	const front = 32
	b := make([]byte, front, front+len(data))
	put16 := func(at int, value uint16) { binary.LittleEndian.PutUint16(b[at:], value) }
	put32 := func(at int, value uint32) { binary.LittleEndian.PutUint32(b[at:], value) }
	put32(0, 16) // the table
	put16(4, 10) // bytes of what says where its fields lie
	put16(6, 12) // bytes of the table
	put16(8, 8)  // its fields: version, kind, header
	put16(10, 10)
	put16(12, 4)
	put32(16, 16-4) // how far before the table that stands
	put32(20, uint32(front+schemaAt-20))
	put16(24, uint16(version))
	b[26] = schemaKind
	return append(b, data...)
}

// Message is the next message; io.EOF at the end.
func (r *Reader) Message() (_ *ipc.Message, err error) {
	defer recovered(&err)
	metadata, body, err := r.next()
	if err != nil {
		return nil, err
	}
	if err := r.check(metadata, body); err != nil {
		return nil, err
	}
	r.Release()
	r.current = ipc.NewMessage(memory.NewBufferBytes(metadata), memory.NewBufferBytes(body))
	return r.current, nil
}

// Release frees the current message.
func (r *Reader) Release() {
	if r.current != nil {
		r.current.Release()
		r.current = nil
	}
}

// Retain does nothing: a Reader has one owner.
func (*Reader) Retain() {}

func (r *Reader) next() (metadata, body []byte, err error) {
	if !r.isFile {
		metadata, body, _, err = r.read(r.at)
		return metadata, body, err
	}
	if r.schema != nil {
		metadata, r.schema = r.schema, nil
		return metadata, nil, nil
	}
	if len(r.blocks) == 0 {
		return nil, nil, io.EOF
	}
	b := r.blocks[0]
	r.blocks = r.blocks[1:]
	metadata, body, kind, err := r.read(b.at)
	if err == io.EOF || (err == nil && (kind != b.kind || int64(len(body)) != b.body)) {
		err = ErrDamaged
	}
	return metadata, body, err
}

// read reads the message at a place.
func (r *Reader) read(at int64) (metadata, body []byte, kind byte, err error) {
	metadata, at, length, err := r.head(at)
	if err != nil {
		return nil, nil, 0, err
	}
	body = make([]byte, length)
	if _, err := r.r.ReadAt(body, at); err != nil && length > 0 {
		return nil, nil, 0, err
	}
	r.at = at + length
	return metadata, body, root(metadata).byte(messageKind), nil
}

// head reads the metadata of the message at a place, and says where its body lies.
func (r *Reader) head(at int64) (metadata []byte, body, length int64, err error) {
	const continued = 0xFFFFFFFF // what messages begin with since Arrow 0.15
	if at == r.size && !r.isFile {
		return nil, 0, 0, io.EOF // a stream may end without its mark
	}
	word := make([]byte, 4)
	bytes := uint32(continued)
	for range 2 {
		if at < 0 || at > r.size-4 {
			return nil, 0, 0, ErrCut
		}
		if _, err := r.r.ReadAt(word, at); err != nil {
			return nil, 0, 0, err
		}
		at += 4
		if bytes = binary.LittleEndian.Uint32(word); bytes != continued {
			break
		}
	}
	switch {
	case bytes == 0:
		return nil, 0, 0, io.EOF
	case bytes > maxMetadataBytes:
		return nil, 0, 0, ErrDamaged
	case int64(bytes) > r.size-at:
		return nil, 0, 0, ErrCut
	}
	metadata = make([]byte, bytes)
	if _, err := r.r.ReadAt(metadata, at); err != nil {
		return nil, 0, 0, err
	}
	at += int64(bytes)
	switch length = root(metadata).int64(messageBody); {
	case length < 0:
		return nil, 0, 0, ErrDamaged
	case length > r.size-at:
		return nil, 0, 0, ErrCut
	}
	return metadata, at, length, nil
}

// check verifies what the decoder does not.
func (r *Reader) check(metadata, body []byte) error {
	message := root(metadata)
	if v := message.int16(messageVersion); v < oldestVersion || v > newestVersion {
		return ErrVersion
	}
	header, ok := message.inside(messageHeader)
	if !ok {
		return ErrDamaged
	}
	switch message.byte(messageKind) {
	case schemaKind:
		header.vector(schemaMetadata, 4)
		w := walk{left: maxFields, version: message.int16(messageVersion), dictionaries: r.dictionaries}
		header.eachInside(schemaFields, func(field table) { r.record.add(w.field(field, 0)) })
	case recordKind:
		checkRecord(header, body, r.record)
	case dictionaryKind:
		id := header.int64(dictionaryID)
		if delta := header.flag(dictionaryDelta); r.isFile && r.defined[id] && !delta {
			return ErrReplaced
		}
		r.defined[id] = true
		data, ok := header.inside(dictionaryData)
		parts, known := r.dictionaries[id]
		if !ok || !known {
			return ErrDamaged
		}
		checkRecord(data, body, parts)
	default:
		return ErrDamaged
	}
	return nil
}

package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/format"
)

// maxFooterBytes bounds the metadata at the end of a file.
const maxFooterBytes = 32 << 20

// Footer reads the metadata at a file's end.
func Footer(r io.ReaderAt, size int64) (*format.FileMetaData, error) {
	const tail = 8 // the length of the footer, and the magic number
	if size < tail+4 {
		return nil, errors.New("it is too short to be Parquet")
	}
	var head [4]byte
	var end [tail]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	if _, err := r.ReadAt(end[:], size-tail); err != nil {
		return nil, err
	}
	magic := []byte("PAR1")
	switch {
	case bytes.Equal(head[:], []byte("PARE")), bytes.Equal(end[4:], []byte("PARE")):
		return nil, errors.New("it is encrypted: write it without encryption")
	case !bytes.Equal(head[:], magic):
		return nil, errors.New("it does not begin with PAR1: it is not Parquet")
	case !bytes.Equal(end[4:], magic):
		return nil, errors.New("it does not end with PAR1: it is cut off; copy it again")
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	switch {
	case length > size-tail-4:
		return nil, errors.New("the footer is longer than the file: copy the file again")
	case length > maxFooterBytes:
		return nil, errors.New("the footer is longer than 32 MiB: write fewer row groups")
	}
	data := make([]byte, length)
	if _, err := r.ReadAt(data, size-tail-length); err != nil {
		return nil, err
	}
	meta := new(format.FileMetaData)
	n, err := Unmarshal(data, meta)
	if err != nil || n < len(data) && meta.EncryptionAlgorithm.Value == nil { // a signature follows what is encrypted
		return nil, errors.New("the footer is damaged: copy the file again, or write it again")
	}
	var rows int64
	for _, group := range meta.RowGroups {
		rows += group.NumRows
	}
	if rows < meta.NumRows { // some writers count none, and their row groups have them all
		return nil, fmt.Errorf("the footer is damaged: it counts %d rows, and its row groups have %d; copy the file again, or write it again", meta.NumRows, rows)
	}
	return meta, nil
}

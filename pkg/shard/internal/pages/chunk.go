package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go/format"
)

const (
	firstHeaderBytes = 4 << 10
	maxHeaderBytes   = 16 << 20  // of a page; statistics are in it
	maxPageBytes     = 512 << 20 // of a page, uncompressed
)

// Leaf is a column of values.
type Leaf struct {
	Type   format.Type
	Length int // of values of type FIXED_LEN_BYTE_ARRAY
	MaxRep int
	MaxDef int
}

// width is how many bytes a value has, 0 where values differ.
func (l Leaf) width() int {
	switch l.Type {
	case format.Boolean:
		return 1
	case format.Int32, format.Float:
		return 4
	case format.Int64, format.Double:
		return 8
	case format.Int96:
		return 12
	case format.FixedLenByteArray:
		return l.Length
	}
	return 0
}

// Budget bounds how many bytes pages hold.
type Budget struct{ Left int64 }

// ErrBudget is the error of a page that is beyond the budget.
var ErrBudget = errors.New("the pages have too many bytes")

// Chunk gives the values of a column in one row group, one by one.
type Chunk struct {
	r      io.ReaderAt
	size   int64 // of the file
	at     int64
	leaf   Leaf
	codec  format.CompressionCodec
	left   int64 // values of the chunk that no page so far has
	budget *Budget

	among  *dictionary
	inPage int // values left
	reps   levels
	defs   levels
	values decoder
	v2     bool // the page states these:
	nulls  int  // that are still to come
	rows   int  // that are still to begin
}

// NewChunk begins to read a column of a row group.
func NewChunk(r io.ReaderAt, size int64, column *format.ColumnChunk, leaf Leaf, budget *Budget) (*Chunk, error) {
	meta := &column.MetaData
	start := meta.DataPageOffset
	if meta.DictionaryPageOffset > 0 && meta.DictionaryPageOffset < start {
		start = meta.DictionaryPageOffset
	}
	switch {
	case column.FilePath != "":
		return nil, errors.New("the values are in another file: write the table as one file")
	case len(meta.PathInSchema) == 0:
		return nil, errors.New("the metadata are encrypted or missing: write the file without encryption")
	case meta.Type != leaf.Type:
		return nil, errors.New("the file is damaged: the type of the values is not the schema's")
	case meta.NumValues < 0 || start < 0 || start > size:
		return nil, errors.New("the file is damaged: the values lie outside the file")
	}
	return &Chunk{r: r, size: size, at: start, leaf: leaf, codec: meta.Codec, left: meta.NumValues, budget: budget}, nil
}

// Next gives the levels of the next value, and the value where its definition level
// is the highest. It ends with io.EOF.
func (c *Chunk) Next() (rep, def int, value []byte, err error) {
	for c.inPage == 0 {
		if err := c.endPage(); err != nil {
			return 0, 0, nil, err
		}
		if c.left == 0 {
			return 0, 0, nil, io.EOF
		}
		if err := c.page(); err != nil {
			return 0, 0, nil, err
		}
	}
	c.inPage--
	if rep, err = c.reps.next(); err != nil {
		return 0, 0, nil, err
	}
	if def, err = c.defs.next(); err != nil {
		return 0, 0, nil, err
	}
	if rep == 0 {
		c.rows--
	}
	if def < c.leaf.MaxDef {
		c.nulls--
		return rep, def, nil, nil
	}
	value, err = c.values.next()
	return rep, def, value, err
}

// endPage checks what a page has had against what its header states.
func (c *Chunk) endPage() error {
	if c.values == nil {
		return nil
	}
	if err := c.values.end(); err != nil {
		return err
	}
	c.values = nil
	if c.v2 && (c.nulls != 0 || c.rows != 0) {
		return errors.New("a page is damaged: its counts of nulls or rows are wrong")
	}
	return nil
}

// page reads one page.
func (c *Chunk) page() error {
	header, length, err := c.header()
	if err != nil {
		return err
	}
	c.at += int64(length)
	size, plain := int64(header.CompressedPageSize), int64(header.UncompressedPageSize)
	switch {
	case size < 0 || plain < 0 || size > c.size-c.at:
		return errors.New("the file is damaged: a page lies outside the file")
	case plain > maxPageBytes || size > maxPageBytes:
		return fmt.Errorf("a page has %d bytes: at most %d are supported; write smaller pages or cells", max(plain, size), int64(maxPageBytes))
	}
	at := c.at
	c.at += size
	if header.Type == format.IndexPage {
		return nil
	}
	if c.budget.Left -= plain; c.budget.Left < 0 {
		return ErrBudget
	}
	data := make([]byte, size)
	if _, err := c.r.ReadAt(data, at); err != nil {
		return err
	}
	if header.CRC != 0 && crc32.ChecksumIEEE(data) != uint32(header.CRC) {
		return errors.New("a page is damaged: its checksum is wrong; copy the file again")
	}
	switch {
	case header.Type == format.DictionaryPage && header.DictionaryPageHeader.Valid:
		return c.dictionaryPage(data, int(plain), header.DictionaryPageHeader.V)
	case header.Type == format.DataPage && header.DataPageHeader.Valid:
		return c.pageV1(data, int(plain), header.DataPageHeader.V)
	case header.Type == format.DataPageV2 && header.DataPageHeaderV2.Valid:
		return c.pageV2(data, int(plain), header.DataPageHeaderV2.V)
	}
	return fmt.Errorf("the file is damaged: a page has the type %d", header.Type)
}

// header reads the header of the page at hand.
func (c *Chunk) header() (header format.PageHeader, length int, err error) {
	for room := int64(firstHeaderBytes); ; room *= 8 {
		data := make([]byte, min(room, c.size-c.at))
		if _, err := c.r.ReadAt(data, c.at); err != nil && err != io.EOF {
			return header, 0, err
		}
		length, err := Unmarshal(data, &header)
		if err == nil {
			return header, length, nil
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) || int64(len(data)) < room || room > maxHeaderBytes {
			return header, 0, errors.New("the file is damaged: a page has no header")
		}
	}
}

func (c *Chunk) dictionaryPage(data []byte, size int, header format.DictionaryPageHeader) error {
	if c.among != nil {
		return errors.New("the file is damaged: a column has two dictionaries in one row group")
	}
	if !slices.Contains(dictionaryPages, header.Encoding) {
		return fmt.Errorf("the encoding %s is not supported for dictionaries: write the file with the encoding PLAIN", encodingName(header.Encoding))
	}
	plain, err := uncompress(c.codec, data, size)
	if err == nil && header.NumValues < 0 {
		err = errors.New("the file is damaged: a dictionary has a negative number of values")
	}
	if err != nil {
		return err
	}
	c.among, err = newDictionary(plain, int(header.NumValues), c.leaf)
	return err
}

// begin begins a page of n values.
func (c *Chunk) begin(n int32) error {
	if n < 0 || int64(n) > c.left {
		return errors.New("the file is damaged: the pages of a column hold more values than its row group states")
	}
	c.left -= int64(n)
	c.inPage = int(n)
	return nil
}

func (c *Chunk) pageV1(data []byte, size int, header format.DataPageHeader) error {
	if err := c.begin(header.NumValues); err != nil {
		return err
	}
	plain, err := uncompress(c.codec, data, size)
	if err != nil {
		return err
	}
	if c.reps, plain, err = levelsV1(plain, header.RepetitionLevelEncoding, c.leaf.MaxRep, c.inPage); err != nil {
		return err
	}
	if c.defs, plain, err = levelsV1(plain, header.DefinitionLevelEncoding, c.leaf.MaxDef, c.inPage); err != nil {
		return err
	}
	c.v2 = false
	c.values, err = valuesOf(header.Encoding, plain, c.leaf, c.among)
	return err
}

func (c *Chunk) pageV2(data []byte, size int, header format.DataPageHeaderV2) error {
	if err := c.begin(header.NumValues); err != nil {
		return err
	}
	reps, defs := int64(header.RepetitionLevelsByteLength), int64(header.DefinitionLevelsByteLength)
	if reps < 0 || defs < 0 || reps+defs > int64(min(len(data), size)) {
		return errors.New("a page is damaged: its levels are longer than the page")
	}
	c.reps = levels{runs: runs{data: data[:reps], width: widthOf(c.leaf.MaxRep)}, top: c.leaf.MaxRep}
	c.defs = levels{runs: runs{data: data[reps : reps+defs], width: widthOf(c.leaf.MaxDef)}, top: c.leaf.MaxDef}
	codec := c.codec
	if compressed, ok := header.IsCompressed.Get(); ok && !compressed {
		codec = format.Uncompressed
	}
	plain, rest := data[reps+defs:], size-int(reps+defs)
	if rest > 0 || len(plain) > 0 { // of nulls alone there is nothing to uncompress
		var err error
		if plain, err = uncompress(codec, plain, rest); err != nil {
			return err
		}
	}
	c.v2, c.nulls, c.rows = true, int(header.NumNulls), int(header.NumRows)
	var err error
	c.values, err = valuesOf(header.Encoding, plain, c.leaf, c.among)
	return err
}

// levelsV1 takes the levels of n values from what a page begins with.
func levelsV1(data []byte, encoding format.Encoding, top, n int) (levels, []byte, error) {
	found := levels{runs: runs{width: widthOf(top)}, top: top}
	switch {
	case top == 0:
		return found, data, nil
	case encoding == format.RLE:
		block, rest, err := prefixed(data)
		found.runs.data = block
		return found, rest, err
	case encoding == format.BitPacked:
		size := (int64(n)*int64(found.runs.width) + 7) / 8
		if size > int64(len(data)) {
			return found, nil, errShort
		}
		found.old, found.packed = true, data[:size]
		return found, data[size:], nil
	}
	return found, nil, fmt.Errorf("the encoding %s is not supported for levels: write the file with RLE", encodingName(encoding))
}

// prefixed splits data into what stands behind its own length, and the rest.
func prefixed(data []byte) (block, rest []byte, err error) {
	if len(data) < 4 {
		return nil, nil, errShort
	}
	n := uint64(binary.LittleEndian.Uint32(data))
	if n > uint64(len(data)-4) {
		return nil, nil, errShort
	}
	return data[4 : 4+n], data[4+n:], nil
}

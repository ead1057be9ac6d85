package pages

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// lz4Block compresses into a bare block.
func lz4Block(t *testing.T, text string) []byte {
	t.Helper()
	packed := make([]byte, lz4.CompressBlockBound(len(text)))
	n, err := lz4.CompressBlock([]byte(text), packed, nil)
	if err != nil || n == 0 {
		t.Fatal(n, err)
	}
	return packed[:n]
}

// hadoop frames blocks of a text as Hadoop does.
func hadoop(t *testing.T, texts ...string) (data []byte) {
	t.Helper()
	for _, text := range texts {
		block := lz4Block(t, text)
		data = binary.BigEndian.AppendUint32(data, uint32(len(text)))
		data = binary.BigEndian.AppendUint32(data, uint32(len(block)))
		data = append(data, block...)
	}
	return data
}

// TestUncompress gives a page its bytes, or an error where they are not as many as stated:
// the decoder of parquet-go took bytes that it had made room for as those of a page.
func TestUncompress(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("What is 1+1? ", 500)
	half := len(text) / 2
	for name, c := range map[string]struct {
		codec format.CompressionCodec
		data  []byte
	}{
		"none":           {format.Uncompressed, []byte(text)},
		"LZ4_RAW":        {format.Lz4Raw, lz4Block(t, text)},
		"LZ4, bare":      {format.Lz4, lz4Block(t, text)},
		"LZ4 of Hadoop":  {format.Lz4, hadoop(t, text)},
		"LZ4, two parts": {format.Lz4, hadoop(t, text[:half], text[half:])},
	} {
		if found, err := uncompress(c.codec, c.data, len(text)); err != nil || !bytes.Equal(found, []byte(text)) {
			t.Errorf("%s: %d bytes, %v", name, len(found), err)
		}
		for _, size := range []int{0, 1, half, len(text) - 1, len(text) + 1, 3 * len(text), maxPageBytes} {
			if found, err := uncompress(c.codec, c.data, size); err == nil || found != nil {
				t.Errorf("%s, stated as %d bytes: %d bytes", name, size, len(found))
			}
		}
		if _, err := uncompress(c.codec, c.data[:len(c.data)-1], len(text)); err == nil {
			t.Errorf("%s: data that are cut off are read", name)
		}
	}
	if _, err := uncompress(format.LZO, []byte(text), len(text)); err == nil || !strings.Contains(err.Error(), "the codec LZO is not supported") {
		t.Errorf("LZO: %v", err)
	}
}

// TestThriftLength walks structs that would cost a decoder its memory or its stack.
func TestThriftLength(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"a list of 2^31 structs":  {0x1C | 0x10, 0x19, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x07},
		"a text of 2^31 bytes":    {0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 'x'},
		"structs in structs":      bytes.Repeat([]byte{0x1C}, 1000),
		"lists in lists":          append([]byte{0x19}, bytes.Repeat([]byte{0x19}, 1000)...),
		"a field without its end": {0x15},
		"a map":                   {0x1B, 0x01, 0x55, 0x02, 0x02, 0x00},
	} {
		if n, err := ThriftLength(data); err == nil {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
	if n, err := ThriftLength([]byte{0x15, 0x02, 0x18, 0x01, 'x', 0x11, 0x00, 0xFF}); n != 7 || err != nil {
		t.Errorf("a struct of 7 bytes: %d, %v", n, err)
	}
}

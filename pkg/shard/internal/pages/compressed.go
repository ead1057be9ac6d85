package pages

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

const (
	maxWindowBytes = 128 << 20 // of zstd: what its highest level takes
	maxBlockRatio  = 255       // how many times smaller Snappy and LZ4 make data at best
)

// codecName names a codec for people.
func codecName(codec format.CompressionCodec) string {
	if codec < 0 || codec > format.Lz4Raw {
		return fmt.Sprintf("number %d", codec)
	}
	return codec.String()
}

// uncompress gives the size bytes that compressed data hold, no more and no fewer.
func uncompress(codec format.CompressionCodec, data []byte, size int) ([]byte, error) {
	var plain []byte
	var err error
	if size == 0 && len(data) == 0 { // some writers compress nothing into nothing
		return nil, nil
	}
	switch codec {
	case format.Uncompressed:
		plain = data
	case format.Snappy:
		plain, err = block(data, size, func(to []byte) (int, error) {
			if n, err := snappy.DecodedLen(data); err != nil || n != size {
				return n, err
			}
			found, err := snappy.Decode(to, data)
			return len(found), err
		})
	case format.Lz4Raw:
		plain, err = block(data, size, func(to []byte) (int, error) { return lz4.UncompressBlock(data, to) })
	case format.Lz4:
		if plain, err = hadoopBlocks(data, size); err != nil { // others write a bare block under this name
			plain, err = block(data, size, func(to []byte) (int, error) { return lz4.UncompressBlock(data, to) })
		}
	case format.Gzip:
		var r io.Reader
		if r, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			plain, err = stream(r, size)
		}
	case format.Brotli:
		plain, err = stream(brotli.NewReader(bytes.NewReader(data)), size)
	case format.Zstd:
		var r *zstd.Decoder
		if r, err = zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindowBytes), zstd.WithDecoderLowmem(true)); err == nil {
			plain, err = stream(r, size)
			r.Close()
		}
	default:
		return nil, fmt.Errorf("the codec %s is not supported: write the file with zstd or snappy", codecName(codec))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("a page is damaged: its %s data do not unpack to %d bytes", codecName(codec), size)
	case len(plain) != size:
		return nil, fmt.Errorf("a page is damaged: it has %d bytes, and its header states %d", len(plain), size)
	}
	return plain, nil
}

var errBlock = errors.New("not a block")

// block uncompresses what does not say how long it is. Where size bytes cannot be in data
// there is no need to make room for them.
func block(data []byte, size int, into func([]byte) (int, error)) ([]byte, error) {
	if size > maxBlockRatio*len(data) {
		return nil, errBlock
	}
	plain := make([]byte, size)
	n, err := into(plain)
	if err != nil || n != size {
		return nil, errBlock
	}
	return plain, nil
}

// hadoopBlocks are LZ4 blocks as Hadoop frames them: each behind its length as
// plain and as compressed data.
func hadoopBlocks(data []byte, size int) ([]byte, error) {
	if size > maxBlockRatio*len(data) {
		return nil, errBlock
	}
	plain := make([]byte, size)
	at := 0
	for len(data) >= 8 {
		n, packed := int64(binary.BigEndian.Uint32(data)), int64(binary.BigEndian.Uint32(data[4:]))
		data = data[8:]
		if packed > int64(len(data)) || n > int64(size-at) {
			return nil, errBlock
		}
		if got, err := lz4.UncompressBlock(data[:packed], plain[at:at+int(n)]); err != nil || got != int(n) {
			return nil, errBlock
		}
		at, data = at+int(n), data[packed:]
	}
	if at != size || len(data) > 0 {
		return nil, errBlock
	}
	return plain, nil
}

// stream reads size bytes, and one more where there is one: memory grows with what
// is there, not with what a header claims.
func stream(r io.Reader, size int) ([]byte, error) {
	var b bytes.Buffer
	_, err := io.Copy(&b, io.LimitReader(r, int64(size)+1))
	return b.Bytes(), err
}

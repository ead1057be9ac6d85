package shard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	compact "github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard/internal/codec"
)

// parquetMagic begins and ends a Parquet file.
const parquetMagic = "PAR1"

// Compact puts sealed tables that share a pack (see [seal.PackOf]) into it, in the order
// of their names, and then removes them. The pack is a Parquet file of all their rows:
// each table is in it whole, to the byte, and a footer at the end finds the pages of all,
// so a query over `*.parquet` sees the same rows as before. It returns the pack's
// manifest. A kill at any point loses nothing, and Compact goes on from there.
func Compact(ctx context.Context, paths []string, a seal.Attempt) (seal.Manifest, error) {
	pack, ok := seal.PackOf(paths[0])
	if !ok {
		return seal.Manifest{}, exitcode.Bugf("%q is not a shard", paths[0])
	}
	m, sealed, err := seal.Check(ctx, pack, seal.Options{})
	if err == nil && !sealed {
		m, err = writePack(ctx, pack, paths, a)
	}
	if err != nil {
		return seal.Manifest{}, err
	}
	return m, seal.RemovePacked(ctx, pack)
}

// writePack seals a pack.
func writePack(ctx context.Context, pack string, paths []string, a seal.Attempt) (seal.Manifest, error) {
	w, err := seal.CreatePack(pack, a)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer w.Abort()
	var footer *format.FileMetaData
	var whole seal.Manifest
	content := sha256.New()
	for _, path := range paths {
		if other, _ := seal.PackOf(path); other != pack {
			return seal.Manifest{}, exitcode.Bugf("%q is not a shard of %q", path, pack)
		}
		data, m, offset, err := w.Add(ctx, path)
		if err != nil {
			return seal.Manifest{}, err
		}
		file, err := openParquet(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return seal.Manifest{}, codec.Unreadable(path, err)
		}
		if footer, err = joined(footer, file.Metadata(), offset); err != nil {
			return seal.Manifest{}, fmt.Errorf("compacting %q: %w", path, err)
		}
		fmt.Fprintf(content, "%s %s\n", m.ContentSHA256, filepath.Base(path))
		if whole.Run == "" {
			whole = seal.Manifest{
				Schema: m.Schema, Run: m.Run, RecipeSHA256: m.RecipeSHA256, Seed: m.Seed, PolicyVersion: m.PolicyVersion,
				Stage: m.Stage, Iteration: m.Iteration, Wave: m.Wave, Of: m.Of,
			}
		}
		whole.Rows += m.Rows
	}
	tail, err := encodeFooter(footer)
	if err != nil {
		return seal.Manifest{}, exitcode.Bugf("compacting %q: %w", pack, err)
	}
	whole.ContentSHA256 = hex.EncodeToString(content.Sum(nil))
	return w.Commit(tail, whole)
}

// joined appends the row groups of a table that begins at an offset to those of the
// tables before it. Indexes of pages hold offsets themselves, so they are left out.
func joined(whole, table *format.FileMetaData, offset int64) (*format.FileMetaData, error) {
	if whole == nil {
		whole = &format.FileMetaData{
			Version: table.Version, Schema: table.Schema, CreatedBy: table.CreatedBy, ColumnOrders: table.ColumnOrders,
			KeyValueMetadata: slices.DeleteFunc(slices.Clone(table.KeyValueMetadata), func(kv format.KeyValue) bool { return kv.Key != codec.SchemaKey }),
		}
	}
	if len(table.Schema) != len(whole.Schema) {
		return nil, exitcode.Dataf("it has %d columns, the shards before it have %d: they were made by different versions of lathe", len(table.Schema), len(whole.Schema))
	}
	for _, group := range table.RowGroups {
		if len(whole.RowGroups) > math.MaxInt16 {
			return nil, exitcode.Usagef("a Parquet file has at most %d row groups: shards as large as these need not be compacted", math.MaxInt16+1)
		}
		group.Ordinal = int16(len(whole.RowGroups))
		group.FileOffset = shifted(group.FileOffset, offset)
		group.Columns = slices.Clone(group.Columns)
		for i := range group.Columns {
			c := &group.Columns[i]
			c.FileOffset = shifted(c.FileOffset, offset)
			c.OffsetIndexOffset, c.OffsetIndexLength, c.ColumnIndexOffset, c.ColumnIndexLength = 0, 0, 0, 0
			pages := &c.MetaData
			pages.DataPageOffset = shifted(pages.DataPageOffset, offset)
			pages.IndexPageOffset = shifted(pages.IndexPageOffset, offset)
			pages.DictionaryPageOffset = shifted(pages.DictionaryPageOffset, offset)
			pages.BloomFilterOffset = shifted(pages.BloomFilterOffset, offset)
		}
		whole.RowGroups = append(whole.RowGroups, group)
	}
	whole.NumRows += table.NumRows
	return whole, nil
}

// shifted moves an offset; 0 stands for none, since a file begins with its magic.
func shifted(at, by int64) int64 {
	if at == 0 {
		return 0
	}
	return at + by
}

// encodeFooter returns the end of a Parquet file.
func encodeFooter(m *format.FileMetaData) ([]byte, error) {
	if m == nil {
		return nil, errors.New("no table")
	}
	var b bytes.Buffer
	if err := compact.NewEncoder(new(compact.CompactProtocol).NewWriter(&b)).Encode(m); err != nil {
		return nil, err
	}
	tail := binary.LittleEndian.AppendUint32(b.Bytes(), uint32(b.Len()))
	return append(tail, parquetMagic...), nil
}

package shard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// HadContent reports whether a sealed table of plans, responses or tasks has a content digest
// of an earlier minor version: whether it would have it if that version had written it.
func HadContent(ctx context.Context, path, digest string, o seal.Options) (bool, error) {
	m, sealed, err := seal.Check(ctx, path, o)
	if err != nil || !sealed {
		return false, err
	}
	switch m.Schema.Name {
	case Instance{}.Schema().Name:
		return had[Instance](ctx, path, digest, o)
	case Rollout{}.Schema().Name:
		return had[Rollout](ctx, path, digest, o)
	case TaskRow{}.Schema().Name:
		return had[TaskRow](ctx, path, digest, o)
	}
	return false, nil
}

func had[T Row](ctx context.Context, path, digest string, o seal.Options) (bool, error) {
	rows, _, err := Read[T](ctx, path, o)
	if err != nil {
		return false, err
	}
	digests, err := EarlierDigests(rows)
	return slices.Contains(digests, digest), err
}

// EarlierDigests are the content digests that rows had before columns were added to their
// table (lathe:"since=MINOR"): one for each earlier minor version, latest first, as long as
// what it lacked is on record and empty in all rows. A table that is written again has the
// content of one that an earlier version of Lathe wrote, where no row uses what was added.
func EarlierDigests[T Row](rows []T) ([]string, error) {
	var zero T
	var digests []string
	for minor := zero.Schema().Minor - 1; minor >= 0; minor-- {
		recorded := false
		for _, c := range columnsOf(reflect.TypeFor[T]()) {
			if c.since != minor+1 {
				continue
			}
			if recorded = true; !emptyIn(rows, c.index) {
				return digests, nil
			}
		}
		if !recorded {
			return digests, nil
		}
		digest, err := digestBefore(rows, minor)
		if err != nil {
			return nil, exitcode.Bugf("encoding %T as in minor version %d: %w", rows, minor, err)
		}
		digests = append(digests, digest)
	}
	return digests, nil
}

func emptyIn[T Row](rows []T, field int) bool {
	for i := range rows {
		if !reflect.ValueOf(&rows[i]).Elem().Field(field).IsZero() {
			return false
		}
	}
	return true
}

// digestBefore is the content digest of rows without the columns that came after a minor
// version: of their values where a column is volatile, else of the file's bytes, as [Write]
// has it.
func digestBefore[T Row](rows []T, minor int) (string, error) {
	row := reflect.TypeFor[T]()
	var zero T
	named := zero.Schema()
	named.Minor = minor
	if _, hasVolatile := ContentDigest[T](nil); hasVolatile {
		digest, _ := digestRows(rows, named, func(c column) bool { return c.volatile || c.since > minor })
		return digest, nil
	}
	var kept []column
	var fields []reflect.StructField
	for _, c := range columnsOf(row) {
		if c.since <= minor {
			kept, fields = append(kept, c), append(fields, row.Field(c.index))
		}
	}
	earlier := reflect.StructOf(fields)
	narrow := make([]any, len(rows))
	for i := range rows {
		from, to := reflect.ValueOf(&rows[i]).Elem(), reflect.New(earlier).Elem()
		for field, c := range kept {
			to.Field(field).Set(from.Field(c.index))
		}
		narrow[i] = to.Interface()
	}
	sum := sha256.New()
	schema := parquet.NewSchema(row.Name(), parquet.SchemaOf(reflect.New(earlier).Interface()))
	if err := encodeAs(sum, schema, named, narrow, nil); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

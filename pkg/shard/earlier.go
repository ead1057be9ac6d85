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

// HadContent reports whether a sealed table of plans, responses, scores or tasks would have a
// content digest if an earlier minor version had written it.
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
	case Score{}.Schema().Name:
		return had[Score](ctx, path, digest, o)
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
// table (lathe:"since=TABLE/MINOR"): one for each earlier minor version, latest first, as long
// as what it lacked is on record and empty in all rows. A table that is written again has the
// content of one that an earlier version of Lathe wrote, where no row uses what was added.
func EarlierDigests[T Row](rows []T) ([]string, error) {
	var zero T
	named := zero.Schema()
	var digests []string
	for named.Minor > 0 {
		added := additions{named, map[reflect.Type][]column{}}
		if !added.to(reflect.TypeFor[T]()) || added.used(reflect.ValueOf(rows)) {
			break
		}
		named.Minor--
		digest, err := digestBefore(rows, named)
		if err != nil {
			return nil, exitcode.Bugf("encoding %T as %s: %w", rows, named, err)
		}
		digests = append(digests, digest)
	}
	return digests, nil
}

// additions are the columns that a version of a schema added, those inside structs included.
type additions struct {
	seal.Schema
	columns map[reflect.Type][]column // of a row, and of structs in it
}

func (a additions) of(t reflect.Type) []column {
	columns, known := a.columns[t]
	if !known {
		columns = columnsOf(t)
		a.columns[t] = columns
	}
	return columns
}

// to reports whether any column of a type was added.
func (a additions) to(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice:
		return a.to(t.Elem())
	case reflect.Struct:
		return slices.ContainsFunc(a.of(t), func(c column) bool { return c.since[a.Name] == a.Minor || a.to(c.typ) })
	}
	return false
}

// used reports whether an added column is not empty somewhere in a value.
func (a additions) used(v reflect.Value) bool {
	switch {
	case !a.to(v.Type()):
		return false
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			if a.used(v.Index(i)) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(a.of(v.Type()), func(c column) bool {
		in := v.Field(c.index)
		return c.since[a.Name] == a.Minor && !in.IsZero() || a.used(in)
	})
}

// digestBefore is the content digest of rows without the columns that came after a version of
// their schema: of their values where a column is volatile, else of the file's bytes, as [Write]
// has it. Of the latter no struct in a row has got a column so far.
func digestBefore[T Row](rows []T, named seal.Schema) (string, error) {
	later := func(c column) bool { return c.since[named.Name] > named.Minor }
	if _, hasVolatile := ContentDigest[T](nil); hasVolatile {
		digest, _ := digestRows(rows, named, func(c column) bool { return c.volatile || later(c) })
		return digest, nil
	}
	row := reflect.TypeFor[T]()
	var kept []column
	var fields []reflect.StructField
	for _, c := range columnsOf(row) {
		if !later(c) {
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

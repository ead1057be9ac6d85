package pysource

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

// Fingerprint is a program as a multiset of shapes, by ascending hash. That of a
// program that does not parse is empty.
//
// A shape is a node of the program's syntax tree with what is below it, down to a
// height: the node alone (1), with its children (2), or with theirs (3); a node
// without grandchildren has no third shape, one without children no second. The
// tree is normalised before: docstrings and other bare strings, comments and hints
// of types are gone, numbers and strings are their types, and the names that the
// program gives are numbers in the order in which they first occur. That order is
// each shape's own, so a line more at the top of a program changes the shapes around
// it and not all that use names below. An imported name is what it names, whatever
// it is called here; attributes, methods and the keywords of others' functions stay,
// since libraries know them.
//
// The numbers are the same whichever version of Python has parsed, where the
// versions have the same syntax.
type Fingerprint []Shape

// Shape is one shape and how often the program has it.
type Shape struct {
	Hash  uint64
	Count uint32
}

// UnmarshalJSON reads the script's pair of numbers.
func (s *Shape) UnmarshalJSON(text []byte) error {
	var pair [2]uint64
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if pair[1] > math.MaxUint32 {
		return fmt.Errorf("a shape that is there %d times", pair[1])
	}
	*s = Shape{pair[0], uint32(pair[1])}
	return nil
}

// Similarity is that of two programs, in [0, 1]: Dice's coefficient of their
// multisets of shapes, 2·|A ∩ B| / (|A| + |B|). It is 1 for equal programs and for
// one whose variables were renamed, and 0 where one of them does not parse.
//
// MLE-RL §4.2 compares syntax trees and does not say how; this reading is
// ours. Programs that differ in numbers and strings alone are equal by it.
func Similarity(a, b Fingerprint) float64 {
	var common, total uint64
	for _, s := range a {
		total += uint64(s.Count)
	}
	for _, s := range b {
		total += uint64(s.Count)
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i].Hash < b[j].Hash:
			i++
		case a[i].Hash > b[j].Hash:
			j++
		default:
			common += uint64(min(a[i].Count, b[j].Count))
			i++
			j++
		}
	}
	if total == 0 {
		return 0
	}
	return 2 * float64(common) / float64(total)
}

// check refuses what no program's fingerprint is.
func (f Fingerprint) check() error {
	for i, s := range f {
		if s.Count == 0 {
			return fmt.Errorf("a shape that is there 0 times")
		}
		if i > 0 && f[i-1].Hash >= s.Hash {
			return fmt.Errorf("shapes that are not in ascending order")
		}
	}
	return nil
}

// MarshalText is base64 of each shape's hash in 8 bytes, the highest first, and its
// count as a varint.
func (f Fingerprint) MarshalText() ([]byte, error) {
	var raw []byte
	for _, s := range f {
		raw = binary.AppendUvarint(binary.BigEndian.AppendUint64(raw, s.Hash), uint64(s.Count))
	}
	return base64.RawStdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText reads what MarshalText writes, and refuses all else.
func (f *Fingerprint) UnmarshalText(text []byte) error {
	raw, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("reading a fingerprint: %w", err)
	}
	var read Fingerprint
	for len(raw) > 0 {
		if len(raw) < 9 {
			return fmt.Errorf("reading a fingerprint: it is cut off")
		}
		count, n := binary.Uvarint(raw[8:])
		if n <= 0 || count > math.MaxUint32 {
			return fmt.Errorf("reading a fingerprint: shape %d has no count", len(read)+1)
		}
		read = append(read, Shape{binary.BigEndian.Uint64(raw), uint32(count)})
		raw = raw[8+n:]
	}
	if err := read.check(); err != nil {
		return fmt.Errorf("reading a fingerprint: %w", err)
	}
	if again, err := read.MarshalText(); err != nil || !bytes.Equal(again, text) {
		return fmt.Errorf("reading a fingerprint: it is written in another way") // line ends within, longer varints
	}
	*f = read
	return nil
}

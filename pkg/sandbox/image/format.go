package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
)

// section is where a file system is in a file, in bytes.
type section struct{ offset, size int64 }

// squashMagic begins a SquashFS file system.
const squashMagic = "hsqs"

// The parts of a SIF file, by its format 01: a header, and descriptors of a fixed size
// that say what the file holds and where. Numbers are little-endian, without padding.
type sifHeader struct {
	Launch            [32]byte
	Magic             [10]byte
	Version, Arch     [3]byte
	ID                [16]byte
	Created, Modified int64
	DescriptorsFree   int64
	Descriptors       int64 // used and free
	DescriptorsOffset int64
	DescriptorsSize   int64
	DataOffset        int64
	DataSize          int64
}

type sifDescriptor struct {
	DataType              int32
	Used                  bool
	ID, Group, Link       uint32
	Offset, Size, Padded  int64
	Created, Modified     int64
	User, UserGroup       int64
	Name                  [128]byte
	FileSystem, Partition int32 // of a partition; the first of 384 bytes that each kind of data has for itself
	Arch                  [3]byte
	Rest                  [373]byte
}

const (
	sifMagic     = "SIF_MAGIC\x00"
	sifVersion   = "01\x00"
	sifPartition = 0x4004
	sifPrimary   = 2 // the partition of the system
)

// fileSystems are those of partitions, from 1 on.
var fileSystems = []string{"SquashFS", "ext3", "an archive", "raw data", "an encrypted SquashFS"}

// architectures are those of partitions that this binary could run on.
var architectures = map[string]string{"02": "amd64", "04": "arm64"}

// maxDescriptors bounds the descriptors of a SIF file; Apptainer writes files of 48.
const maxDescriptors = 4096

// squashFS finds the SquashFS file system of a file of so many bytes.
func squashFS(f io.ReaderAt, size int64) (section, error) {
	whole := section{0, size}
	if whole.begins(f) {
		return whole, nil
	}
	var header sifHeader
	if err := read(f, size, 0, &header); err != nil || string(header.Magic[:]) != sifMagic {
		return section{}, errors.New("it is neither a SquashFS nor a SIF file")
	}
	if string(header.Version[:]) != sifVersion {
		return section{}, fmt.Errorf("a SIF file of version %q, want %q", header.Version[:2], sifVersion[:2])
	}
	if header.Descriptors < 0 || header.Descriptors > maxDescriptors {
		return section{}, fmt.Errorf("a SIF file of %d descriptors, want at most %d", header.Descriptors, maxDescriptors)
	}
	for i := range header.Descriptors {
		var d sifDescriptor
		if err := read(f, size, header.DescriptorsOffset+i*int64(binary.Size(d)), &d); err != nil {
			return section{}, fmt.Errorf("a SIF file: its descriptor %d: %w", i+1, err)
		}
		if !d.Used || d.DataType != sifPartition || d.Partition != sifPrimary {
			continue
		}
		return d.system(f, size)
	}
	return section{}, errors.New("a SIF file without a partition of a system")
}

// system is where the descriptor of the primary partition says that the system is.
func (d *sifDescriptor) system(f io.ReaderAt, size int64) (section, error) {
	if d.FileSystem != 1 {
		kind := fmt.Sprint("file system ", d.FileSystem)
		if at := int(d.FileSystem) - 1; at >= 0 && at < len(fileSystems) {
			kind = fileSystems[at]
		}
		return section{}, fmt.Errorf("a SIF file whose system is %s, want SquashFS", kind)
	}
	if arch, known := architectures[string(bytes.TrimRight(d.Arch[:], "\x00"))]; known && arch != runtime.GOARCH {
		return section{}, fmt.Errorf("a SIF file whose system is for %s, want %s", arch, runtime.GOARCH)
	}
	s := section{d.Offset, d.Size}
	if s.offset < 0 || s.size < 0 || s.offset > size || s.size > size-s.offset {
		return section{}, fmt.Errorf("a SIF file of %d bytes, whose system is %d bytes from %d on", size, s.size, s.offset)
	}
	if !s.begins(f) {
		return section{}, errors.New("a SIF file whose partition is no SquashFS")
	}
	return s, nil
}

// begins reports whether a SquashFS begins here.
func (s section) begins(f io.ReaderAt) bool {
	magic := make([]byte, len(squashMagic))
	n, _ := f.ReadAt(magic, s.offset) // what cannot be read is none
	return n == len(magic) && int64(n) <= s.size && string(magic) == squashMagic
}

// read reads a structure at an offset of a file of so many bytes.
func read(f io.ReaderAt, size, offset int64, into any) error {
	n := int64(binary.Size(into))
	if offset < 0 || offset > size-n {
		return io.ErrUnexpectedEOF
	}
	return binary.Read(io.NewSectionReader(f, offset, n), binary.LittleEndian, into)
}

package bfcl

import (
	"slices"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// directory is a folder; a file is an entry without one.
type directory struct {
	name    string
	parent  *directory // nil for the root
	entries []*entry   // in the order in which their names came
}

type entry struct {
	content string
	name    string // of a file; a folder has its own
	folder  *directory
}

func (e *entry) called() string {
	if e.folder != nil {
		return e.folder.name
	}
	return e.name
}

func newDirectory(name, described python.Value, parent *directory) *directory {
	d := &directory{name: python.String(name), parent: parent}
	contents, ok := member(described, "contents").(*python.Dict)
	if !ok {
		raise("contents of %s is no dict", d.name)
	}
	for i := range contents.Len() {
		name, described := contents.At(i)
		e := &entry{name: python.String(name)}
		switch python.String(member(described, "type")) {
		case "directory":
			e.folder = newDirectory(name, described, d)
		case "file":
			content, ok := member(described, "content").(string)
			if !ok {
				raise("content of %s is no str", e.name)
			}
			e.content = content
		default:
			raise("type of %s is neither file nor directory", e.name)
		}
		d.entries = append(d.entries, e)
	}
	return d
}

func (d *directory) find(name string) *entry {
	for _, e := range d.entries {
		if e.called() == name {
			return e
		}
	}
	return nil
}

func (d *directory) remove(gone *entry) {
	d.entries = slices.DeleteFunc(d.entries, func(e *entry) bool { return e == gone })
}

// add puts an entry into a folder under a name.
func (d *directory) add(e *entry, name string) {
	e.name = name
	if e.folder != nil {
		e.folder.name, e.folder.parent = name, d
	}
	d.entries = append(d.entries, e)
}

func (e *entry) copy() *entry {
	copied := &entry{content: e.content, name: e.name}
	if e.folder != nil {
		copied.folder = &directory{name: e.folder.name}
		for _, inner := range e.folder.entries {
			copied.folder.add(inner.copy(), inner.called())
		}
	}
	return copied
}

// size counts the entries under a folder and the bytes of its files.
func (d *directory) size() (entries, bytes int) {
	for _, e := range d.entries {
		entries++
		bytes += len(e.content)
		if e.folder != nil {
			innerEntries, innerBytes := e.folder.size()
			entries, bytes = entries+innerEntries, bytes+innerBytes
		}
	}
	return entries, bytes
}

func (d *directory) describe() *python.Dict {
	contents := &python.Dict{}
	for _, e := range d.entries {
		if e.folder != nil {
			contents.Set(e.called(), e.folder.describe())
		} else {
			contents.Set(e.name, python.NewDict("type", "file", "name", e.name, "content", e.content))
		}
	}
	return python.NewDict("type", "directory", "name", d.name, "contents", contents)
}

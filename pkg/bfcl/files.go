package bfcl

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// fileSystem is GorillaFileSystem.
type fileSystem struct {
	root, current *directory
}

// A policy can copy a folder into itself and double it; these bound the tree.
const (
	maxEntries = 10_000
	maxBytes   = 16 << 20
)

var fileSystemClass = define("GorillaFileSystem", newFileSystem, []method[*fileSystem]{
	{"pwd()", (*fileSystem).pwd},
	{"ls(a=False)", (*fileSystem).ls},
	{"cd(folder)", (*fileSystem).cd},
	{"mkdir(dir_name)", (*fileSystem).mkdir},
	{"touch(file_name)", (*fileSystem).touch},
	{"echo(content, file_name=None)", (*fileSystem).echo},
	{"cat(file_name)", (*fileSystem).cat},
	{"find(path='.', name=None)", (*fileSystem).find},
	{"wc(file_name, mode='l')", (*fileSystem).wc},
	{"sort(file_name)", (*fileSystem).sort},
	{"grep(file_name, pattern)", (*fileSystem).grep},
	{"du(human_readable=False)", (*fileSystem).du},
	{"tail(file_name, lines=10)", (*fileSystem).tail},
	{"diff(file_name1, file_name2)", (*fileSystem).diff},
	{"mv(source, destination)", (*fileSystem).mv},
	{"rm(file_name)", (*fileSystem).rm},
	{"rmdir(dir_name)", (*fileSystem).rmdir},
	{"cp(source, destination)", (*fileSystem).cp},
})

func newFileSystem(config *python.Dict) *fileSystem {
	root := &directory{name: table[string]("GorillaFileSystem", "default_root_name")}
	if tree, given := config.Get("root"); given {
		top, ok := tree.(*python.Dict)
		if !ok || top.Len() == 0 {
			raise("root must be a dict with the name of the root directory")
		}
		name, described := top.At(0) // two tasks have a second key, which no tool reaches
		root = newDirectory(name, described, nil)
	}
	return &fileSystem{root: root, current: root}
}

func (f *fileSystem) attributes() *python.Dict {
	return python.NewDict("root", f.root.describe(), "long_context", false)
}

// checkName refuses names that no file may have.
func checkName(command, name string) {
	refuseIf(strings.ContainsAny(name, table[string]("GorillaFileSystem", "invalid_name_characters")),
		failed("%s: '%s' holds a character that no name may have", command, name))
}

// file finds a file here, or refuses.
func (f *fileSystem) file(command, name string) *entry {
	e := f.current.find(name)
	refuseIf(e == nil, failed("%s: %s: No such file or directory", command, name))
	refuseIf(e.folder != nil, failed("%s: %s: Is a directory", command, name))
	return e
}

func (f *fileSystem) pwd(arguments) python.Value {
	path := ""
	for d := f.current; d != nil; d = d.parent {
		path = "/" + d.name + path
	}
	return result("current_working_directory", path)
}

func (f *fileSystem) ls(a arguments) python.Value {
	names := python.NewList()
	for _, e := range f.current.entries {
		if python.Truth(a[0]) || !strings.HasPrefix(e.called(), ".") {
			names.Items = append(names.Items, e.called())
		}
	}
	return result("current_directory_content", names)
}

// cd takes a name with slashes behind it, and shows a folder by its own name.
func (f *fileSystem) cd(a arguments) python.Value {
	switch name := strings.TrimRight(a.text(0), "/"); {
	case name == "..":
		if f.current.parent == nil {
			return failed("cd: ..: this is the root already")
		}
		f.current = f.current.parent
		return result()
	case name == "" || name == ".":
		if name == "" {
			f.current = f.root
		}
		return result("current_working_directory", f.current.name)
	default:
		e := f.current.find(name)
		if e == nil {
			return failed("cd: %s: No such directory. Only one level can be changed at a time.", name)
		}
		if e.folder == nil {
			return failed("cd: %s: Not a directory", name)
		}
		f.current = e.folder
		return result("current_working_directory", name)
	}
}

// create makes an entry with a new name.
func (f *fileSystem) create(command, name string, e *entry) python.Value {
	checkName(command, name)
	refuseIf(f.current.find(name) != nil, failed("%s: '%s': File exists", command, name))
	f.current.add(e, name)
	return nil
}

func (f *fileSystem) mkdir(a arguments) python.Value {
	return f.create("mkdir", a.text(0), &entry{folder: &directory{}})
}

func (f *fileSystem) touch(a arguments) python.Value {
	return f.create("touch", a.text(0), &entry{})
}

func (f *fileSystem) echo(a arguments) python.Value {
	content := a.text(0)
	if a[1] == nil || a[1] == "" {
		return result("terminal_output", content)
	}
	name := a.text(1)
	checkName("echo", name)
	e := f.file("echo", name)
	e.content = content
	return nil
}

func (f *fileSystem) cat(a arguments) python.Value {
	name := a.text(0)
	checkName("cat", name)
	e := f.file("cat", name)
	return result("file_content", e.content)
}

func (f *fileSystem) find(a arguments) python.Value {
	path := a.text(0)
	var wanted string
	if a[1] != nil {
		wanted = a.text(1)
	}
	below := strings.Trim(path, "/")
	start, names := f.current, strings.Split(below, "/")
	if strings.HasPrefix(path, "/") {
		start = f.root
		if below == "" {
			names = nil
		}
	}
	for _, name := range names {
		if name == "." {
			continue
		}
		e := start.find(name)
		if e == nil || e.folder == nil {
			return failed("find: '%s': No such directory", path)
		}
		start = e.folder
	}
	matches := python.NewList()
	var walk func(d *directory, prefix string)
	walk = func(d *directory, prefix string) {
		for _, e := range d.entries {
			inner := prefix + "/" + e.called()
			if strings.Contains(e.called(), wanted) {
				matches.Items = append(matches.Items, inner)
			}
			if e.folder != nil {
				walk(e.folder, inner)
			}
		}
	}
	walk(start, strings.TrimRight(path, "/"))
	return result("matches", matches)
}

func (f *fileSystem) wc(a arguments) python.Value {
	e := f.file("wc", a.text(0))
	switch mode := a.text(1); mode {
	case "l":
		return result("count", int64(len(lines(e.content))), "type", "lines")
	case "w":
		return result("count", int64(len(words(e.content))), "type", "words")
	case "c":
		return result("count", int64(utf8.RuneCountInString(e.content)), "type", "characters")
	default:
		return failed("wc: the mode is '%s'; it must be l, w or c", mode)
	}
}

// words is str.split: its blanks are those of Unicode and four separators.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || '\x1c' <= r && r <= '\x1f' })
}

// lines is str.splitlines.
func lines(text string) []string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var all []string
	start := 0
	for i, r := range text {
		if strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", r) {
			all = append(all, text[start:i])
			start = i + utf8.RuneLen(r)
		}
	}
	if start < len(text) {
		all = append(all, text[start:])
	}
	return all
}

func (f *fileSystem) sort(a arguments) python.Value {
	e := f.file("sort", a.text(0))
	return result("sorted_content", strings.Join(slices.Sorted(slices.Values(lines(e.content))), "\n"))
}

func (f *fileSystem) grep(a arguments) python.Value {
	pattern := a.text(1)
	e := f.file("grep", a.text(0))
	matching := python.NewList()
	for _, line := range lines(e.content) {
		if strings.Contains(line, pattern) {
			matching.Items = append(matching.Items, line)
		}
	}
	return result("matching_lines", matching)
}

func (f *fileSystem) du(a arguments) python.Value {
	_, bytes := f.current.size()
	if !python.Truth(a[0]) {
		return result("disk_usage", fmt.Sprintf("%d bytes", bytes))
	}
	size, units := float64(bytes), []string{"B", "KB", "MB", "GB"}
	for size >= 1024 && len(units) > 1 {
		size, units = size/1024, units[1:]
	}
	return result("disk_usage", fmt.Sprintf("%.2f %s", size, units[0]))
}

func (f *fileSystem) tail(a arguments) python.Value {
	count, ok := a[1].(int64)
	if !ok {
		raise("lines must be an int, not %s", python.TypeName(a[1]))
	}
	e := f.file("tail", a.text(0))
	all := lines(e.content)
	total := int64(len(all))
	switch { // all[-count:]
	case count > 0:
		all = all[total-min(count, total):]
	case count < 0:
		all = all[min(-max(count, -total), total):]
	}
	return result("last_lines", strings.Join(all, "\n"))
}

func (f *fileSystem) diff(a arguments) python.Value {
	first := f.file("diff", a.text(0))
	second := f.file("diff", a.text(1))
	var unequal []string
	firstLines, secondLines := lines(first.content), lines(second.content)
	for i := range min(len(firstLines), len(secondLines)) {
		if firstLines[i] != secondLines[i] {
			unequal = append(unequal, "- "+firstLines[i]+"\n+ "+secondLines[i])
		}
	}
	return result("diff_lines", strings.Join(unequal, "\n"))
}

// place finds out where mv and cp put a source: into an existing folder, or
// under a new name.
func (f *fileSystem) place(command, source, destination string) (e *entry, into *directory, name string) {
	e = f.current.find(source)
	refuseIf(e == nil, failed("%s: '%s': No such file or directory", command, source))
	refuseIf(strings.Contains(destination, "/"), failed("%s: '%s': no path is allowed, only a name in the current directory", command, destination))
	there := f.current.find(destination)
	if there == nil {
		return e, f.current, destination
	}
	refuseIf(there.folder == nil, failed("%s: '%s': File exists", command, destination))
	refuseIf(there.folder.find(source) != nil, failed("%s: '%s/%s': File exists", command, destination, source))
	return e, there.folder, source
}

// placed tells where mv and cp have put a source.
func (f *fileSystem) placed(source, done, destination string, into *directory) python.Value {
	if into != f.current {
		destination += "/" + source
	}
	return result("result", fmt.Sprintf("'%s' %s to '%s'", source, done, destination))
}

func (f *fileSystem) mv(a arguments) python.Value {
	source, destination := a.text(0), a.text(1)
	e, into, name := f.place("mv", source, destination)
	refuseIf(e.folder != nil && e.folder == into, failed("mv: '%s': a directory cannot be moved into itself", source))
	f.current.remove(e)
	into.add(e, name)
	return f.placed(source, "moved", destination, into)
}

func (f *fileSystem) cp(a arguments) python.Value {
	source, destination := a.text(0), a.text(1)
	e, into, name := f.place("cp", source, destination)
	entries, bytes := f.root.size()
	more := &directory{entries: []*entry{e}}
	moreEntries, moreBytes := more.size()
	refuseIf(entries+moreEntries > maxEntries || bytes+moreBytes > maxBytes, failed("cp: '%s': No space left on device", destination))
	into.add(e.copy(), name)
	return f.placed(source, "copied", destination, into)
}

func (f *fileSystem) rm(a arguments) python.Value {
	name := a.text(0)
	e := f.current.find(name)
	refuseIf(e == nil, failed("rm: '%s': No such file or directory", name))
	f.current.remove(e)
	return result("result", fmt.Sprintf("'%s' removed", name))
}

func (f *fileSystem) rmdir(a arguments) python.Value {
	name := a.text(0)
	e := f.current.find(name)
	refuseIf(e == nil, failed("rmdir: '%s': No such directory", name))
	refuseIf(e.folder == nil, failed("rmdir: '%s': Not a directory", name))
	refuseIf(len(e.folder.entries) > 0, failed("rmdir: '%s': Directory not empty", name))
	f.current.remove(e)
	return result("result", fmt.Sprintf("'%s' removed", name))
}

// Package config is typed YAML: structs of settings are filled from files and
// from the command line, written out whole, compared, checked and described.
//
// A struct of settings has exported fields with the tag yaml:"name". More tags
// say more of a field:
//
//	choices:"a,b"  the values of a text, or of each text of a list
//	               ([Chooser] where only the running program knows them)
//	path:"file"    a path, relative to the file that names it
//	yaml:",inline" of a struct, or of a field of type any that holds a pointer
//	               to one: its fields stand among those around it; of
//	               [Variants]: one field for each of them
//
// So a section of a file may be open: which fields it has is found while the
// program runs, from what its packages registered. A pointer to a struct is a
// part that may be null ([Defaulter] has its defaults). The meaning of a field
// is the comment on it, which [Docs] hands over.
package config

// Package jinja renders the Jinja templates that model folders carry as
// chat_template: the language of Jinja 3.1 as Hugging Face transformers sets
// it up (trim_blocks, lstrip_blocks, loop controls, {% generation %} blocks,
// immutable values), with Python's values, operators, methods and spelling.
//
// A template is a program by a stranger. It gets a budget of steps, of bytes
// and of depth that depends on nothing but its input, so that it ends, small
// and soon, and always in the same way; it can reach no file, no clock and no
// other template. What the package does not implement (include, import,
// extends, block, recursive loops, markup escaping) is an error that says so,
// never a silent difference.
package jinja

package cmdline

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// permute moves flags in front of arguments, which the library expects,
// so that `lathe run recipe.yaml --run DIR` works as it reads. It also returns
// the words that name the command, such as "lathe policy init".
func permute(app *cli.App, args []string) (command string, permuted []string) {
	if len(args) == 0 {
		return app.HelpName, args
	}
	commands, rest := args[:1], args[1:]
	words, flags, level := []string{app.HelpName}, app.Flags, app.Commands
	for len(rest) > 0 {
		found := find(level, rest[0])
		if found == nil {
			break
		}
		commands, rest = append(commands[:len(commands):len(commands)], rest[0]), rest[1:]
		words, flags, level = append(words, found.Name), found.Flags, found.Subcommands
	}
	takesValue := map[string]bool{}
	for _, f := range flags {
		_, isBool := f.(*cli.BoolFlag)
		for _, name := range f.Names() {
			takesValue[name] = !isBool
		}
	}
	var front, back []string
	for i := 0; i < len(rest); i++ {
		arg := rest[i]
		if arg == "--" { // what follows is arguments, whatever it looks like
			front, back = append(front, arg), append(back, rest[i+1:]...)
			break
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			back = append(back, arg)
			continue
		}
		front = append(front, arg)
		name := strings.TrimLeft(arg, "-")
		if !strings.Contains(name, "=") && takesValue[name] && i+1 < len(rest) {
			i++
			front = append(front, rest[i])
		}
	}
	return strings.Join(words, " "), append(append(commands[:len(commands):len(commands)], front...), back...)
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

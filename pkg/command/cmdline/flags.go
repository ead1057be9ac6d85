package cmdline

import (
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"
)

// SetFlag is --set, which changes a recipe.
func SetFlag(to *[]string) cli.Flag {
	return ListFlag("set", "set a recipe field: `FIELD=VALUE`; may be repeated", to)
}

// ListFlag is a flag that may be repeated.
func ListFlag(name, usage string, to *[]string) cli.Flag {
	return &cli.StringSliceFlag{Name: name, Usage: usage, Action: put(to)}
}

// NoDefault is the default text of a number that has none, of which help says nothing.
const NoDefault = "\x00"

func init() {
	plain, noise := cli.FlagStringer, strings.NewReplacer(" (default: "+NoDefault+")", "", " (default: false)", "")
	cli.FlagStringer = func(f cli.Flag) string { return noise.Replace(plain(f)) }
}

// NumberFlag is a flag without a default: its number stays nil where it is not given.
func NumberFlag(name, usage string, to **int, aliases ...string) cli.Flag {
	return &cli.IntFlag{Name: name, Aliases: aliases, Usage: usage, DefaultText: NoDefault, Action: func(_ *cli.Context, n int) error {
		*to = &n
		return nil
	}}
}

// put is the action of a flag that stores the flag's value.
func put[T any](to *T) func(*cli.Context, T) error {
	return func(_ *cli.Context, value T) error {
		*to = value
		return nil
	}
}

// JSONFlag is --json.
func JSONFlag(to *bool) cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: to}
}

// PathFlag is a flag that names a file, files or a folder.
func PathFlag(name, usage string, to *string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: to}
}

// ThreadsFlag is --threads, which [EngineThreads] reads.
func ThreadsFlag(to *int) cli.Flag {
	return &cli.IntFlag{Name: "threads", Usage: "number of engine `THREADS`; 0 uses all cores", Destination: to}
}

// EngineThreads is the number of threads that --threads asks for.
func EngineThreads(threads int) (int, error) {
	if err := AtLeast(0, "threads", threads); err != nil {
		return 0, err
	}
	if threads > 0 {
		return threads, nil
	}
	return runtime.GOMAXPROCS(0), nil
}

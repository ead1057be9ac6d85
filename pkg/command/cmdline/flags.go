package cmdline

import (
	"runtime"

	"github.com/urfave/cli/v2"
)

// SetFlag is --set, which changes a recipe.
func SetFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "set", Usage: "set a recipe field: `FIELD=VALUE`; may be repeated"}
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

package cmdline

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/config"
)

// SettingFlags makes a flag of each field of the struct that settings points
// to: only_best is --only-best, and its value is set before the command's action.
// about begins what --help says of each.
func SettingFlags(settings any, about string) (flags []cli.Flag) {
	for _, f := range config.Describe(settings, "") {
		name, usage := strings.ReplaceAll(f.Path, "_", "-"), about+f.Doc
		if len(f.Choices) > 0 {
			usage += ": " + strings.Join(f.Choices, ", ")
		}
		if p, ok := config.Pointer[bool](settings, f.Path); ok {
			flags = append(flags, &cli.BoolFlag{Name: name, Usage: usage, Value: *p, Destination: p})
		} else if p, ok := config.Pointer[string](settings, f.Path); ok {
			flags = append(flags, &cli.StringFlag{Name: name, Usage: usage, Value: *p, Destination: p})
		} else if p, ok := config.Pointer[int](settings, f.Path); ok {
			flags = append(flags, &cli.IntFlag{Name: name, Usage: usage, Value: *p, Destination: p})
		} else if p, ok := config.Pointer[float64](settings, f.Path); ok {
			flags = append(flags, &cli.Float64Flag{Name: name, Usage: usage, Value: *p, Destination: p})
		} else if p, ok := config.Pointer[[]string](settings, f.Path); ok {
			flags = append(flags, &cli.StringSliceFlag{Name: name, Usage: usage, Value: cli.NewStringSlice(*p...), Action: put(p)})
		} else if p, ok := config.Pointer[[]int](settings, f.Path); ok {
			flags = append(flags, &cli.IntSliceFlag{Name: name, Usage: usage, Value: cli.NewIntSlice(*p...), Action: put(p)})
		} else {
			panic(fmt.Sprintf("cmdline: the setting %s can be no flag", f.Path))
		}
	}
	return flags
}

package command

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/recipe"
)

// RecipeOptions name a recipe.
type RecipeOptions struct {
	Recipe string   // its file
	Set    []string // changes of it, FIELD=VALUE, in their order
	Rates  string   // file of lathe policy bench --json, by which time limits are set; empty for none
}

func (o RecipeOptions) load() (*recipe.Resolved, error) {
	resolved, err := recipe.Load(o.Recipe, o.Set)
	if err != nil || o.Rates == "" {
		return resolved, err
	}
	rates, err := readRates(o.Rates)
	if err != nil {
		return nil, err
	}
	return recipe.Load(o.Recipe, append(rates.estimate(resolved.Recipe).settings(), o.Set...))
}

func dateFlag(to *string) cli.Flag {
	return &cli.StringFlag{Name: "date", Usage: "`DATE` (such as 2026-11-21) for strftime_now in the chat template; default: strftime_now is undefined", Destination: to}
}

// parseDate reads --date; the zero time when it is not given.
func parseDate(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	date, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return date, exitcode.Usagef("--date: %w", err)
	}
	return date, nil
}

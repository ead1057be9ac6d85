package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/credit"
	"github.com/lathe-rl/lathe/pkg/env"
)

// Fingerprint is the SHA-256 of the settings, seed included, that are not the default
// ones, in hexadecimal. Name, description and resources are left out. A setting that a
// later version adds changes a recipe's digest, and not its fingerprint; nor does the
// name of a field, for settings are spelt as up to version 50bdd7a.
func (r *Recipe) Fingerprint() string { return r.Fingerprints()[0] }

// Fingerprints are all that stand for the recipe: up to version 50bdd7a the factor
// diversity could be asked for in three ways.
func (r *Recipe) Fingerprints() []string {
	factors := names(r.Factors.On(credit.MultipliesAdvantage))
	last := len(factors) - 1
	if r.Curriculum.Name != "exit" || !slices.Contains(factors, diversity) {
		return []string{r.fingerprint(factors, false)}
	}
	prints := []string{r.fingerprint(factors, true), r.fingerprint(factors, false)}
	if factors[last] == diversity {
		return append([]string{r.fingerprint(factors[:last], true)}, prints...)
	}
	return prints
}

func names(choices []credit.Choice) []string {
	var names []string
	for _, c := range choices {
		names = append(names, c.Name)
	}
	return names
}

// fingerprint is that of one spelling, where advantage.factors names some factors and
// curriculum.exit.diversity_bonus may be true.
func (r *Recipe) fingerprint(factors []string, bonus bool) string {
	sum := sha256.Sum256([]byte(strings.Join(r.oldSpelling(factors, bonus), "\n")))
	return hex.EncodeToString(sum[:])
}

// oldSpelling lists the settings that are not the default ones by the names of version
// 50bdd7a, in the order in which it wrote them.
func (r *Recipe) oldSpelling(factors []string, bonus bool) []string {
	plain := Defaults()
	if settings, data, err := env.Defaults(r.Env.Name); err == nil {
		plain.Env.Settings, plain.Data.Settings = settings, data
	}
	own := *r
	own.Name, own.Description, own.Resources = "", "", plain.Resources
	own.Schedule.ApplyShards = plain.Schedule.ApplyShards // of which any number gives the same
	if own.Evaluation.Every == 0 {                        // the default until it was auto
		own.Evaluation.Every = plain.Evaluation.Every
	}
	sections := map[string][]string{} // lines by section of the present form
	for _, line := range config.Overrides(&own, &plain) {
		section, _, _ := strings.Cut(line, ".")
		section, _, _ = strings.Cut(section, ":")
		sections[section] = append(sections[section], strings.Replace(line, "env.program.sandbox", "env.program.cage", 1))
	}
	var lines []string
	for _, section := range config.Names(&own) {
		switch text := sections[section]; section {
		case "curriculum":
			lines = append(lines, text...)
			if bonus {
				lines = append(lines, "curriculum.exit.diversity_bonus: true")
			}
		case "segments":
			lines = append(lines, oldName("credit.segments", text)...)
		case "reward":
			lines = append(lines, rewardLines(text, r.Segments.Choice())...)
		case "advantage":
			text = respelt(text, "advantage.name:", "advantage.kind:")
			at := slices.IndexFunc(text, func(line string) bool { return strings.Count(line[:strings.Index(line, ": ")], ".") > 1 })
			if at < 0 {
				at = len(text)
			}
			lines = append(lines, text[:at]...)
			lines = append(append(lines, oldList("advantage.factors", factors)...), text[at:]...)
			lines = append(lines, settingsOf("advantage", r.Factors.On(credit.MultipliesAdvantage), credit.FactorAxis.Variants())...)
		case "loss":
			weights := r.Factors.On(credit.MultipliesWeight)
			at := 0
			if len(text) > 0 && strings.HasPrefix(text[0], "loss.kind:") {
				at = 1
			}
			lines = append(append(lines, text[:at]...), oldName("loss.aggregation", sections["weight"])...)
			lines = append(append(lines, text[at:]...), oldList("loss.weights", names(weights))...)
			lines = append(lines, settingsOf("loss", []credit.Choice{r.Weight.Choice()}, credit.WeightAxis.Variants())...)
			lines = append(lines, settingsOf("loss", weights, credit.FactorAxis.Variants())...)
		case "env": // no environment of several had a select of its own
			lines = append(lines, without("\n    select: null", text)...)
		case "evaluation": // a set without a role was one
			lines = append(lines, without("\n    role: "+RoleBenchmark, text)...)
		case "factors", "weight":
		default:
			lines = append(lines, text...)
		}
	}
	return lines
}

// without are the lines without what a later version added to them.
func without(added string, lines []string) []string {
	rest := slices.Clone(lines)
	for i, line := range rest {
		rest[i] = strings.ReplaceAll(line, added, "")
	}
	return rest
}

func respelt(lines []string, from, to string) []string {
	spelt := slices.Clone(lines)
	for i, line := range spelt {
		spelt[i] = strings.Replace(line, from, to, 1)
	}
	return spelt
}

// oldName is the line of the name of a choice whose field was a text.
func oldName(path string, line []string) []string {
	if len(line) == 0 {
		return nil
	}
	_, value, _ := strings.Cut(line[0], ": ")
	name, _, _ := strings.Cut(strings.Trim(value, "{}"), ":")
	return []string{path + ": " + name}
}

func oldList(path string, names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return []string{path + ": [" + strings.Join(names, ", ") + "]"}
}

// rewardLines are the lines of the reward, between whose name and settings those of
// segments stood.
func rewardLines(text []string, segments credit.Choice) []string {
	text = respelt(respelt(text, "reward.name:", "credit.reward:"), "reward.", "credit.")
	at := 0
	if len(text) > 0 && strings.HasPrefix(text[0], "credit.reward:") {
		at = 1
	}
	return slices.Concat(text[:at], settingsOf("credit", []credit.Choice{segments}, credit.SegmentsAxis.Variants()), text[at:])
}

// settingsOf are the lines of the settings of choices, in the order of their names.
func settingsOf(section string, choices []credit.Choice, defaults config.Variants) []string {
	choices = slices.SortedFunc(slices.Values(choices), func(a, b credit.Choice) int { return strings.Compare(a.Name, b.Name) })
	var lines []string
	for _, c := range choices {
		if c.Settings == nil {
			continue
		}
		for _, line := range config.Overrides(c.Settings, defaults.Of(c.Name)) {
			lines = append(lines, section+"."+c.Name+"."+line)
		}
	}
	return lines
}

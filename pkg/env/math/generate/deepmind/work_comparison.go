package deepmind

import (
	"math/big"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

var (
	whichOfTwo = lazyregexp.New(`^Which is (smaller|bigger|greater): (\S+) or (\S+)\?$`)
	kth        = lazyregexp.New(`^(?:What|Which) is the (?:([a-z]+) )?(biggest|smallest) value(?: in (.+)\?|\?((?:  \([a-z]\) \S+)+))$`)
	nearestTo  = lazyregexp.New(`^(?:What|Which) is the (?:closest|nearest) to (\S+?)(?: in (.+)\?|\?((?:  \([a-z]\) \S+)+))$`)
	toSort     = lazyregexp.New(`^(?:Sort|Put) (.+?)(?: in (ascending|increasing|descending|decreasing) order)?\.$`)
)

// askedRelation is a template of [relations] as a pattern, with the place of
// the left number.
type askedRelation struct {
	pattern            *regexp.Regexp
	below, same, above bool
}

var askedRelations = sync.OnceValue(func() []askedRelation {
	var all []askedRelation
	for _, r := range relations {
		for _, template := range r.templates {
			pattern := put(regexp.QuoteMeta(strings.NewReplacer("{p}", "\x00", "{q}", "\x01").Replace(template)), "", "")
			pattern = strings.NewReplacer("\x00", `(\S+)`, "\x01", `(\S+)`).Replace(pattern)
			all = append(all, askedRelation{regexp.MustCompile("^" + pattern + "$"), r.below, r.same, r.above})
		}
	}
	return all
})

// pair writes the sign between two numbers.
func (w *worker) pair(text string) (body, answer string, ok bool) {
	if m := whichOfTwo().FindStringSubmatch(text); m != nil {
		values, ok := w.items(m[2:])
		if !ok {
			return "", "", false
		}
		sign := values[0].Cmp(values[1])
		if sign < 0 == (m[1] == "smaller") {
			return signOf(sign), m[2], sign != 0
		}
		return signOf(sign), m[3], sign != 0
	}
	for _, r := range askedRelations() {
		m := r.pattern.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		values, ok := w.items(m[1:])
		if !ok {
			return "", "", false
		}
		sign := values[0].Cmp(values[1])
		if sign < 0 && r.below || sign == 0 && r.same || sign > 0 && r.above {
			return signOf(sign), "True", true
		}
		return signOf(sign), "False", true
	}
	return "", "", false
}

func signOf(sign int) string { return [...]string{"<", "=", ">"}[sign+1] }

// choices are the items of a question, and what each is called in its answer.
func choices(listed, lettered string) (texts, names []string) {
	if lettered == "" {
		texts = strings.Split(listed, ", ")
		return texts, texts
	}
	for option := range strings.SplitSeq(strings.TrimPrefix(lettered, "  ("), "  (") {
		name, text, _ := strings.Cut(option, ") ")
		texts, names = append(texts, text), append(names, name)
	}
	return texts, names
}

// ordered lists positions by value.
func ordered(values []*big.Rat, falling bool) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if falling {
			i, j = j, i
		}
		return values[i].Cmp(values[j])
	})
	return order
}

// kthBiggest writes the numbers up to the one that is asked for, after their
// letters if they have some, so that the last letter is the answer.
func (w *worker) kthBiggest(text string) (body, answer string, ok bool) {
	m := kth().FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	texts, names := choices(m[3], m[4])
	k := 1
	if m[1] != "" {
		k = slices.Index(ordinals, m[1])
	}
	values, ok := w.items(texts)
	if !ok || k < 1 || k > len(texts) {
		return "", "", false
	}
	var passed []string
	order := ordered(values, m[2] == "biggest")[:k]
	for _, i := range order {
		if names[i] == texts[i] {
			passed = append(passed, texts[i])
		} else {
			passed = append(passed, names[i]+" "+texts[i])
		}
	}
	return strings.Join(passed, ", "), names[order[k-1]], true
}

// closest writes the distance of each number from the target.
func (w *worker) closest(text string) (body, answer string, ok bool) {
	m := nearestTo().FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	texts, names := choices(m[2], m[3])
	values, ok := w.decimals(append([]string{m[1]}, texts...))
	if !ok {
		return "", "", false
	}
	var distances []*big.Rat
	var shown []string
	for i, value := range values[1:] {
		distance := new(big.Rat).Sub(value, values[0])
		distances = append(distances, distance.Abs(distance))
		shown = append(shown, names[i]+":"+cutOff(distance))
	}
	return strings.Join(shown, ", "), names[ordered(distances, false)[0]], true
}

// sorted needs no steps of its own: the answer itself goes from one number to
// the next.
func (w *worker) sorted(text string) (body, answer string, ok bool) {
	m := toSort().FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	texts := strings.Split(m[1], ", ")
	values, ok := w.items(texts)
	if !ok {
		return "", "", false
	}
	var names []string
	for _, i := range ordered(values, strings.HasPrefix(m[2], "de")) {
		names = append(names, texts[i])
	}
	return "", strings.Join(names, ", "), true
}

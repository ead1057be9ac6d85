package mathverify

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// replacements make one spelling of many. They are applied in order, once.
var replacements = strings.NewReplacer(
	`\!  `, "", `\! `, "", `\!`, "", `{, }`, ",", `{ ,}`, ",", `{,}`, ",", `\$`, "", "$", "", `\dfrac`, `\frac`, `\tfrac`, `\frac`, `\cfrac`, `\frac`, `\nicefrac`, `\frac`, `\sfrac`, `\frac`, `\langle`, "(", `\rangle`, ")", `\lbrack`, "[", `\rbrack`, "]",
	`\text{ and }`, `\text{and}`, `\text{ or }`, `\text{or}`, `\text{, and }`, `\text{and}`, `\text{, or }`, `\text{or}`,
	`\text{and }`, `\text{and}`, `\text{ and}`, `\text{and}`, `\text{or }`, `\text{or}`, `\text{ or}`, `\text{or}`,
	`\mbox{ and }`, `\text{and}`, `\mbox{ or }`, `\text{or}`, `\mathrm{and}`, `\text{and}`, `\mathrm{or}`, `\text{or}`,
	"½", `\frac{1}{2}`, "⅓", `\frac{1}{3}`, "⅔", `\frac{2}{3}`, "¼", `\frac{1}{4}`, "¾", `\frac{3}{4}`, "⅕", `\frac{1}{5}`, "⅖", `\frac{2}{5}`, "⅗", `\frac{3}{5}`, "⅘", `\frac{4}{5}`,
	"⅙", `\frac{1}{6}`, "⅚", `\frac{5}{6}`, "⅛", `\frac{1}{8}`, "⅜", `\frac{3}{8}`, "⅝", `\frac{5}{8}`, "⅞", `\frac{7}{8}`, "€", "", "£", "", "¥", "", "₹", "", `\pounds`, "",
	`\not=`, `\ne `, `\not =`, `\ne `, `\percent`, `\%`, `\text{percent}`, `\%`, `\text{ percent}`, `\%`, `\text{ \%}`, `\%`, `\text{\%}`, `\%`,
	"\u00a0", " ", "\u202f", " ", "\u2009", " ",
)

// raised is an exponent in small figures, and figures their large ones.
var (
	raised  = lazyregexp.New(`[⁺⁻]?[⁰¹²³⁴-⁹]+`)
	figures = strings.NewReplacer("⁰", "0", "¹", "1", "²", "2", "³", "3", "⁴", "4", "⁵", "5", "⁶", "6", "⁷", "7", "⁸", "8", "⁹", "9", "⁺", "+", "⁻", "-")
)

// respelt makes one spelling of many.
func respelt(s string) string {
	if strings.ContainsAny(s, "⁰¹²³⁴⁵⁶⁷⁸⁹") {
		s = raised().ReplaceAllStringFunc(s, func(small string) string { return "^{" + figures.Replace(small) + "}" })
	}
	return replacements.Replace(s)
}

// separators have blanks before a comma in braces.
var separators = strings.NewReplacer(" {,", "{,", " { ,", "{,")

// TeX's own ways to write a binomial and a fraction, and the room it leaves between rows.
var (
	choose = lazyregexp.New(`\{([^{}]*)\\choose([^{}]*)\}`)
	over   = lazyregexp.New(`\{([^{}]*)\\over([^a-zA-Z{}][^{}]*)\}`)
	rowGap = lazyregexp.New(`\\\\\[-?[0-9.]+ ?[a-z]+\]`)
)

// typeset is a number in scientific notation whose e is set in other type:
// 1\text{e}5, 1\mathrm{e-}5. An upright e before a sign may be the constant.
var typeset = lazyregexp.New(`([0-9.])\\(?:(?:text|textrm|mbox)\{([eE]) ?([-+−]?) ?\} ?\{?([-+−]?[0-9]+)\}?|(?:mathrm|mathbf|mathit|mathsf|operatorname)\{([eE]) ?([-+−]?) ?\} ?([0-9]+))`)

// percents are the words for a hundredth.
var percents = []string{"percentage", "percent", "pct"}

// units are words that stand after a value and say only in what it is counted.
var units = wordSet(`cm mm m km dm inch inches in ft feet foot yd yard yards mile miles mi kg g mg gram grams lb lbs pound pounds oz ounce ounces
	ton tons second seconds sec s minute minutes min hour hours hr hrs h day days week weeks month months year years
	degree degrees deg dollar dollars cent cents usd euro euros mph kph kmh unit units square sq cubic liter liters litre litres ml l
	meter meters metre metres centimeter centimeters millimeter millimeters kilometer kilometers radian radians rad
	people person persons student students child children boy boys girl girls apple apples book books ball balls card cards
	coin coins way ways time times point points page pages piece pieces bag bags box boxes row rows game games
	per of the each knots knot hertz hz volts volt watts watt joules joule newtons newton kelvin celsius fahrenheit percent`)

// symbols are those of the International System beside the words, of which each
// may stand behind a prefix.
var symbols = wordSet(`A bar C cd eV F g H Hz J K kg L l lm lx m mol N Pa s S T V W Wb Ω`)

// unitSign is a sign between units, or an exponent of one.
var unitSign = lazyregexp.New(`\^\{?[-−]?[1-9]\}?|[/·*~ ()]|\\cdot|\\times|\\[,; ]`)

// unitsOnly reports whether a text is units with exponents and signs between
// them: cm^2, kg\cdot m/s^2.
func unitsOnly(text string) bool {
	text = strings.NewReplacer(`\Omega`, "Ω", `\mu`, "µ").Replace(text)
	if text == "" || !letterAt(text, 0) {
		return false
	}
	return !slices.ContainsFunc(strings.Fields(unitSign().ReplaceAllString(text, " ")), func(word string) bool {
		_, size := utf8.DecodeRuneInString(word)
		prefixed := strings.Contains("GMkhdcmµnp", word[:size]) && symbols[word[size:]]
		return !symbols[word] && !prefixed && !units[strings.ToLower(word)]
	})
}

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// normalize makes one spelling of the many for the same formula, and drops
// what changes no value: currency signs, units, a final full stop.
func normalize(s string) string {
	if strings.Contains(s, " {") {
		s = separators.Replace(s)
	}
	s = singleBackslashes(respelt(s))
	if strings.Contains(s, `\choose`) {
		s = choose().ReplaceAllString(s, `\binom{$1}{$2}`)
	}
	if strings.Contains(s, `\over`) {
		s = over().ReplaceAllString(s, `\frac{$1}{$2}`)
	}
	if strings.Contains(s, `\\[`) {
		s = rowGap().ReplaceAllString(s, `\\`)
	}
	if strings.Contains(s, "{e") || strings.Contains(s, "{E") {
		s = typeset().ReplaceAllString(s, "$1$2$3$4$5$6$7")
	}
	s = strings.TrimSpace(s)
	for trimmed := true; trimmed; {
		trimmed = false
		for _, tail := range []string{".", ",", ";", ":", `\\`, `\,`, `\;`, `\ `} {
			if strings.HasSuffix(s, tail) && !strings.HasSuffix(s, "..") {
				s = strings.TrimSpace(strings.TrimSuffix(s, tail))
				trimmed = true
			}
		}
	}
	// What is about a value is the value.
	s = strings.TrimPrefix(strings.TrimPrefix(s, `\approx`), "≈")
	return dropUnits(s)
}

// singleBackslashes undoes the escape of commands, as in \\frac. In matrices
// two of them end a row.
func singleBackslashes(s string) string {
	if !strings.Contains(s, `\\`) || strings.Contains(s, `\begin`) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if strings.HasPrefix(s[i:], `\\`) && letterAt(s, i+2) {
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// dropUnits takes the words at the end that are units, if a value stands
// before them.
func dropUnits(s string) string {
	rest := s
	for range 6 {
		end := len(rest)
		for _, power := range []string{"^2", "^3", "^{2}", "^{3}"} {
			end = min(end, len(strings.TrimSuffix(rest, power)))
		}
		start := end
		for start > 0 && letterAt(rest, start-1) && rest[start-1] < 0x80 {
			start--
		}
		word := strings.ToLower(rest[start:end])
		if start == end || start > 0 && (rest[start-1] == '\\' || rest[start-1] == '{' || rest[start-1] == '_') {
			break
		}
		if slices.Contains(percents, word) {
			return strings.TrimSpace(rest[:start]) + `\%`
		}
		before := strings.TrimRight(rest[:start], " ~")
		for _, blank := range []string{`\,`, `\;`, `\ `} {
			before = strings.TrimSuffix(before, blank)
		}
		if !units[word] || before == "" {
			break
		}
		// One letter right behind a value is a factor, as in 3m; after a
		// blank it is a unit.
		if last := before[len(before)-1]; end-start == 1 && len(before) == start || !valueEnd(last) && !letterAt(before, len(before)-1) {
			break
		}
		rest = before
	}
	if rest == s || rest == "" || !valueEnd(rest[len(rest)-1]) {
		return s
	}
	return rest
}

// valueEnd reports whether a value can end in c.
func valueEnd(c byte) bool {
	return c >= '0' && c <= '9' || c == '}' || c == ')'
}

// plainText is the form in which answers that cannot be parsed are compared.
func plainText(s string) string {
	s = respelt(s)
	s = strings.NewReplacer(`\left`, "", `\right`, "", `\,`, "", `\;`, "", `\ `, "", `\displaystyle`, "", `\text`, "", `\mathrm`, "", `\mbox`, "",
		"{", "", "}", "").Replace(s)
	return strings.TrimRight(compact(s), ".,;")
}

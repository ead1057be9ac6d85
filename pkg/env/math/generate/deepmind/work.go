package deepmind

import (
	"math/big"
	"strings"
)

// Work writes the steps by which a question in the dataset's words is worked
// out, in few characters, and the answer to which they lead. It reads the
// question alone, so it does the same for problems of files and for those of
// [Make]. It is false for a question that it cannot read and for one that it
// knows no steps for: of the pure modules, comparisons and expressions of
// several operations have steps.
//
//	8 - (15 - 28)                                   8 -15=-7 +28=21
//	2/(-4)*-3 + 1                                   -1/2 3/2 5/2
//	What is the second biggest value in 3, 1/5, 5?  5, 3
//	Which is the nearest to 0.3?  (a) 4  (b) 2/13   2/13=0.153; a:3.7, b:0.147
//	Let w = 1 - 3. Suppose 9*q + 84 = 21. Is w > q? w=1 -3=-2, 9q=-63, q=-7; >
//	Let f(x) = x**2 - 3. Let y be f(4). Sort 2, y.  y=1 4 13
//
// A sum is its terms without brackets, each followed by the sum up to it; any
// other expression, the value of each operation in the order in which they are
// executed. Of a linear equation stand the sums of its terms, and of two,
// the coefficients of the unknowns and the right side, then each unknown that
// is asked for as a quotient of determinants; of a function's value, the steps
// of Horner's scheme. Of comparisons stand the sign between two numbers, the
// numbers up to the one asked for in their order, or the distances from the
// target, all as decimals of about four digits, cut off.
func Work(question string) (steps, answer string, ok bool) {
	if len(question) > longest {
		return "", "", false
	}
	w := &worker{known: map[string]*big.Rat{}, functions: map[string]function{}}
	rest := question
	for strings.HasPrefix(rest, "Let ") || strings.HasPrefix(rest, "Suppose ") {
		text, after, found := strings.Cut(rest, ". ")
		if !found || !w.sentence(text, after) {
			return "", "", false
		}
		rest = after
	}
	for _, ask := range []func(string) (string, string, bool){w.pair, w.kthBiggest, w.closest, w.sorted, w.calculated} {
		if body, answer, ok := ask(rest); ok {
			return joined("; ", strings.Join(w.notes, ", "), body), answer, true
		}
	}
	return "", "", false
}

// longest is the bound on a question in bytes, far above the dataset's.
const longest = 1000

// worker reads one question.
type worker struct {
	known     map[string]*big.Rat
	functions map[string]function
	notes     []string // on what the sentences define, and on fractions
}

type function struct {
	variable string
	body     *node
}

// joined leaves out what is empty.
func joined(separator, first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + separator + second
}

// item reads what a comparison names, a number or a letter.
func (w *worker) item(text string) (*big.Rat, bool) {
	if value, ok := w.known[text]; ok {
		return value, true
	}
	if text == "" || strings.Trim(text, "-./0123456789") != "" {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// items reads several.
func (w *worker) items(texts []string) ([]*big.Rat, bool) {
	values := make([]*big.Rat, len(texts))
	for i, text := range texts {
		var ok bool
		if values[i], ok = w.item(text); !ok {
			return nil, false
		}
	}
	return values, true
}

// decimals reads several too, and notes the decimals of those that are written
// as fractions.
func (w *worker) decimals(texts []string) ([]*big.Rat, bool) {
	values, ok := w.items(texts)
	for i, value := range values {
		if strings.Contains(texts[i], "/") {
			w.notes = append(w.notes, texts[i]+"="+cutOff(value))
		}
	}
	return values, ok
}

// cutOff writes a number to about four digits: three places after the point,
// and one fewer for each digit that the whole part has above one. What follows
// is cut off, and so are zeros at the end.
func cutOff(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	whole := new(big.Int).Quo(r.Num(), r.Denom())
	places := max(0, 3+1-len(whole.Abs(whole).String()))
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	scaled := new(big.Int).Mul(new(big.Int).Abs(r.Num()), scale)
	scaled.Quo(scaled, r.Denom())
	text := new(big.Rat).SetFrac(scaled, scale).FloatString(places)
	if places > 0 {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	if r.Sign() < 0 {
		return "-" + text
	}
	return text
}

// plain writes a number exactly: with a point where that ends and the question
// has one, else as a fraction.
func plain(r *big.Rat, decimal bool) string {
	if places, exact := r.FloatPrec(); decimal && exact {
		return r.FloatString(places)
	}
	return r.RatString()
}

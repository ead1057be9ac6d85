package mathverify

import (
	"errors"
	"strings"
	"testing"
)

// What is read of each notation: the form and the formula as an explanation
// shows them, "unreadable", or "budget".
func TestReadings(t *testing.T) {
	t.Parallel()
	digits := func(n int) string { return strings.Repeat("7", n) }
	ones := func(n int) string { return strings.Repeat("1,", n-1) + "1" }
	// Nested brackets take 6 levels each, braces 7, and a root 8; the number
	// inside takes 7. A term x of a sum takes 3 nodes, \frac12 takes 5, and the
	// sum itself 4.
	nested := func(brackets, braces, roots int) string {
		return strings.Repeat(`\sqrt{`, roots) + strings.Repeat("{", braces) + strings.Repeat("(", brackets) + "1" + strings.Repeat(")", brackets) + strings.Repeat("}", braces+roots)
	}
	terms := func(letters, halves int) string {
		return strings.Repeat("x+", letters) + strings.Repeat(`\frac12+`, halves)
	}
	const unreadable, beyond = "unreadable", "budget"
	cases := map[string]string{
		// numbers
		"0": "integer 0", "9": "integer 9", "1,234": "integer 1234", "123,456": "integer 123456", "1,234,567": "integer 1234567", "1234,567": "set {1234, 567}", "0,111": "set {0, 111}",
		"1,23": "set {1, 23}", "1,2345": "set {1, 2345}", ".5": "decimal 0.5", "1.50": "decimal 1.5", "(1.)+1": "integer (1 + 1)", "0.12\\overline{3}": "rational 37/300", `1.\overline{9}`: "integer 2",
		`0.\overline{}`: unreadable, `0.\overline{3`: unreadable, `0.\overline{` + digits(64) + "}": "rational 7/9", `0.\overline{` + digits(65) + "}": unreadable,
		"1e3": "integer 1000", "1e-3": "decimal 0.001", "1E+3": "integer 1000", "1.5e3": "decimal 1500", "1e1001": "integer (1*(10^1001))", "1e-1001": "rational (1*(10^-1001))",
		"1e3x": "expression (1*e*3*x)", "2e5^2": "constant (2*e*(5^2))", "1e1" + strings.Repeat("0", 17): "constant (1*(10^1" + strings.Repeat("0", 17) + "))", "1e1" + strings.Repeat("0", 18): beyond,
		digits(160): "integer " + digits(160), digits(161): "integer " + digits(160) + "…", digits(157) + "=x": "equation " + digits(157) + " = …", digits(2048): "integer " + digits(160) + "…", digits(2049): beyond, "1." + digits(2049): beyond, "{" + digits(2049): beyond,
		// mixed numbers and products
		`1\frac12`: "rational 3/2", `1\frac02`: "integer 1", `1\frac10`: "constant (1*(1/0))", `1\frac{-1}2`: "rational (1*(-1/2))", `1\frac{x}2`: "expression (1*(x/2))", `1.5\frac12`: "rational (1.5*(1/2))",
		`1\frac{1.5}2`: "rational (1*(1.5/2))", `0.\overline{3}\frac12`: "rational (1/3*(1/2))", `1\frac{0.\overline{3}}2`: "rational (1*(1/3/2))", `\sin -1\frac12`: "constant sin(-3/2)",
		"2*x*y": "expression (2*x*y)", "3 .5": "rational (3*0.5)", "x 0": "expression (x*0)", "x 9": "expression (x*9)", "2*-3": "integer (2*-3)", "2*+3": "integer (2*3)", "2{x}": "expression (2*x)",
		"1/2x": "expression (1/(2*x))", "1/x y": "expression ((1/x)*y)", "1/2 3": "rational ((1/2)*3)", "6:2:3": "integer ((6/2)/3)", "x:-2y": "expression (x/(-2*y))", `7\div -2`: "rational (7/-2)", `7\bmod -2`: "integer mod(7, -2)",
		"x-": "text x", "x+": "text x", "--5": "integer 5", "-+-+-5": "integer -5", "1-2+3": "integer (1 + -2 + 3)", "-x": "expression (-1*x)", "2-x y": "expression (2 + (-1*(x*y)))",
		// units
		`5\text{m}^2`: "integer 5", `5\text{m}^x`: `expression (5*("m"^x))`, `5\frac{\text{m}}{\text{s}}`: "integer 5", `5\frac{\text{m}}{2}`: `constant (5*("m"/2))`, `\text{m}/\text{s}`: `constant ("m"/"s")`, `5/\text{s}`: "integer 5",
		// powers, marks and arguments
		"x^10": "expression (x^10)", `\frac12`: "rational (1/2)", `\frac123`: "rational ((1/2)*3)", `\frac-12`: "rational (-1/2)", `\frac+12`: "rational (1/2)", "x^": unreadable, "x**2": "expression (x^2)", "x^-2": "expression (x^-2)",
		"5!": "integer factorial(5)", "5!=120": "equation factorial(5) = 120", "5 !=120": "inequality 5 != 120", "x!=3": "inequality x != 3", "(3)!=6": "equation factorial(3) = 6", "50%": "percent 50 %", `50\%+1`: "rational (50 % + 1)",
		"27°": "integer 27", `27^\circ`: "integer 27", `27^ {\circ}`: "integer 27", "f'": "text f", `x^\prime+1`: "expression (x + 1)", "12_{10}": "integer 12", "x_{1 2}": "text x_12", "x_1y": "expression (x_1*y)",
		"x_é+1": "expression (x_é + 1)", `x_\alpha y`: `expression (x_\alpha*y)`, "x_": "text x_", "x_{1": unreadable, "{x": unreadable, "{}": "set {}", `\binom52`: "integer binomial(5, 2)", "{n\\choose 2}": "expression binomial(n, 2)",
		// roots, bars and brackets
		`\sqrt2`: "constant (2^1/2)", `\sqrt[3]{8}`: "integer (8^(1/3))", `\sqrt[3`: unreadable, "√4": "integer (4^1/2)", "sqrt 9": "integer (9^1/2)", "cbrt(8)": "integer (8^1/3)", "|x||y|": "expression (abs(x)*abs(y))", "2|x|": "expression (2*abs(x))",
		"|(1+|x|)|": "expression abs((1 + abs(x)))", "|(x)y|": "expression abs((x*y))", "|x": unreadable, `\vert x\vert y`: "expression (abs(x)*y)", `\lvert x\rvert`: "expression abs(x)", `\left|x\right|`: "expression abs(x)",
		`\lfloor x\rfloor+1`: "expression (floor(x) + 1)", `\lceil 5/2\rceil`: "integer ceil((5/2))", `\lfloor x`: unreadable, "()": unreadable, `(1\{2\})`: unreadable, `1\{2\}`: unreadable, "(1[2])": unreadable, "1[2]": unreadable, "(1}": unreadable, `\text{1)}`: unreadable, "(5)": "integer 5", "(1,2": unreadable, "(1,234)": "interval (1, 234)", "(1,2],1,234": "set {(1, 2], 1234}",
		"(" + ones(64) + ")": "tuple (" + strings.Repeat("1, ", 53) + "…", "(" + ones(65) + ")": beyond, ones(64): "set {" + strings.Repeat("1, ", 53) + "…", ones(65): beyond,
		`\left.x\right)`: unreadable, `\left.x\right.`: "text x", "x\t+\n1\r+ 2": "expression (x + 1 + 2)", "x~+1": "expression (x + 1)", `x\,\quad+1`: "expression (x + 1)",
		// names, functions
		"pi": "constant pi", "π": "constant pi", "2π r": "expression (2*pi*r)", "oo": "constant infinity", "∞": "constant infinity", "∅": "set empty", "if x": unreadable, "xe": "expression (x*e)", "2i": "constant (2*i)", "πr": "expression (pi*r)", "r π": "expression (r*pi)", "ei": "expression (e*i)",
		"f(x)": "expression f(x)", "f (x,y)": "expression f(x, y)", `f\left(x\right)`: "expression f(x)", `f\left (x\right)`: "expression f(x)", "G(y+1)": "expression g((y + 1))", "x(y+1)": "expression (x*(y + 1))", "a(2)": "constant a(2)", "P(x, 10)": "expression p(x, 10)",
		"P(xy)": "expression (p*(x*y))", "P(2x)": "expression (p*(2*x))", `P\left(x\right)`: "expression p(x)", "P(x": unreadable, "x)": unreadable,
		`\sin^2 x`: "expression (sin(x)^2)", `\sin^{-1}x`: "expression arcsin(x)", `\sinh^{-1}x`: "expression (sinh(x)^-1)", `\sin^{-2}x`: "expression (sin(x)^-2)", `\log_2 8`: "integer log(8, 2)", `\log 100`: "integer log(100, 10)", "lg 10": "integer log(10, 10)", "exp(x)": "expression (e^x)",
		"asin x": "expression arcsin(x)", "max(1,2)": "integer max(1, 2)", `\sin 2x\cos y`: "expression (sin((2*x))*cos(y))", `\sin 2(y)`: "expression (sin(2)*y)", `\sin{2x}y`: "expression (sin((2*x))*y)", `\sin 2\sqrt3`: "constant sin((2*(3^1/2)))", "sin": unreadable, "log(8,2)": unreadable, "sqrt(4,9)": unreadable, "exp(1,2)": unreadable,
		`\mathrm{sin} x`: "expression sin(x)", `\mathrm{e}`: "constant e", `\mathrm{5}`: "integer 5", `\mathrm{cm}`: `text "cm"`, `\mathrm{x}`: "text x", `\operatorname{i}`: "constant i", `\alpha\beta`: `expression (\alpha*\beta)`, `\%`: unreadable, `\int x`: unreadable, `\overline{A B}`: `text \overline{ab}`,
		// type and words
		`\text{(B)}`: `text "b"`, `\text{}`: unreadable, `\text{()}`: `text "()"`, `\text{12 big pears}`: "integer 12", `\text{12 x}`: "expression (12*x)", `\mathbf{\alpha}`: `text \alpha`, `\mathbf x`: "text x", `\mathbf\alpha`: `text \alpha`, `\mathbf`: unreadable, `\mathbf{x`: unreadable, `\mathbf{x)}`: unreadable,
		`\mathbb{R}`: "set R", `\mathbb R^+`: "set R+", `\mathbb{Z}_{>0}`: "set Z+", `\mathbb{RR}`: "expression (r*r)", `\mathbb{A}`: "text a",
		// series
		`\sum_{i=1}^{3} i`: "integer sum(i, 1, 3, i)", `\sum^{n}_{k=0} k`: "expression sum(k, 0, n, k)", `\prod_{k=1}^3 2k+1`: "integer (prod(k, 1, 3, (2*k)) + 1)", `\sum_{i=1} i`: unreadable, `\sum^3 i`: unreadable, `\sum_{i<3}^4 i`: unreadable,
		`\sum_{i=1=2}^4 i`: unreadable, `\sum_{2=1}^4 i`: unreadable, `\sum_{i}^4 i`: unreadable,
		// matrices
		`\begin{pmatrix}1&2\\3&4\\\end{pmatrix}`: "matrix matrix[1, 2; 3, 4]", `\begin{vmatrix}1&2\\3&4\end{vmatrix}`: "constant det(matrix[1, 2; 3, 4])", `\begin{array}{cc}1&2\end{array}`: "matrix matrix[1, 2]", `\begin{pmatrix}1&2\\3\end{pmatrix}`: unreadable, `\begin{pmatrix}1\\2&3\end{pmatrix}`: unreadable, `\begin{cases}1\end{cases}`: unreadable,
		`\begin{pmatrix}1`: unreadable, `\begin{pmatrix}\begin{pmatrix}1\end{pmatrix}\end{pmatrix}`: unreadable, `\begin{pmatrix}` + strings.ReplaceAll(ones(64), ",", "&") + `\end{pmatrix}`: "matrix matrix[" + strings.Repeat("1, ", 51) + "…", `\begin{pmatrix}` + strings.ReplaceAll(ones(65), ",", "&") + `\end{pmatrix}`: beyond,
		// relations
		"x=1": "equation x = 1", "1<x<=2": "inequality 1 < x <= 2", `x\in(1,2)`: "inequality x in (1, 2)", "x=5≈3": "equation x = 5", "5=x≈3": "equation 5 = x = 3", "π≈3": "constant pi", "x≈3": "equation x = 3", `3\pmod 7`: "constant pmod(3, 7)", `3\pmod{-7}`: "constant pmod(3, -7)",
		`A\cup B\cap C`: `set ((a ∪ b) ∩ c)`, `A\setminus B`: `set (a \ b)`, `1\pm x`: "set (1 ± x)", `\mp x`: "set ∓x", "1+2±x": "set ((1 + 2) ± x)",
		// lists
		"1,2;3": "set {(1, 2), 3}", "1;2": "set {1, 2}", "1,2;;3,4": "set {(1, 2), (3, 4)}", "(1;2),3": "set {(1, 2), 3}", "1 and 2": "set {1, 2}", "1 or 2": "set {1, 2}", `1\lor 2`: "set {1, 2}", `1,\ldots,9`: "set {1, 9}", "1…9": "set {1, 9}", "(1,...,9)": "interval (1, 9)",
		"1 andx": "expression (1*a*n*d*x)", "": "set {}", "1 2)": unreadable,
		`\{1,234\}`: "set {1, 234}", `\{1\},1,234`: "set {{1}, 1234}", `\{(2|x|,1)\}`: "set {((2*abs(x)), 1)}", `\{(x):x>1\}`: "set {x : x > 1}", `\{x\in\mathbb{R}|x>1\}`: "set {x : x > 1, x in R}", `\{1`: unreadable, `\{1,x|x>1\}`: unreadable, `\{,x|x>1\}`: unreadable,
		// bounds: 6·6 + 3·7 + 7 = 64 levels; 4 + 3·497 + 5 = 1500 nodes; 4096 bytes
		nested(6, 3, 0): "integer 1", nested(6, 2, 1): beyond, terms(497, 1): "expression (" + strings.Repeat("x + ", 39) + "x +…", terms(494, 3): beyond,
		"(" + strings.Repeat(" ", 4093) + "5)": "integer 5", "(" + strings.Repeat(" ", 4094) + "5)": beyond,
	}
	for text, want := range cases {
		n, err := parse(text, &budget{steps: maxSteps})
		got := ""
		switch {
		case errors.Is(err, errParse):
			got = unreadable
		case errors.Is(err, errBudget):
			got = beyond
		default:
			got = n.describe() + " " + show(n)
		}
		if got != want {
			t.Errorf("%.80q is read as %q, want %q", text, got, want)
		}
	}
}

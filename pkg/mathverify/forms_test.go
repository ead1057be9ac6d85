package mathverify

import (
	"strings"
	"testing"
)

// judged is a reference, a response, and whether the one is the other.
type judged struct {
	gold, response string
	equal          bool
}

func judge(t *testing.T, options Options, cases []judged) {
	t.Helper()
	for _, c := range cases {
		if r := Verify(c.gold, c.response, options); r.Equal != c.equal {
			t.Errorf("gold %q, response %q: equal %v (%s, read %q); want %v", c.gold, c.response, r.Equal, r.Reason, r.Extracted, c.equal)
		}
	}
}

// Sums: entry by entry. (1 2; 3 4)(5 6; 7 8) = (1·5+2·7 1·6+2·8; 3·5+4·7
// 3·6+4·8) = (19 22; 43 50), and in the other order (23 34; 31 46).
func TestMatrixValues(t *testing.T) {
	t.Parallel()
	matrix := func(rows string) string { return `\begin{pmatrix}` + rows + `\end{pmatrix}` }
	a, b := matrix(`1&2\\3&4`), matrix(`5&6\\7&8`)
	ab := "$" + matrix(`19&22\\43&50`) + "$"
	column, row := matrix(`1\\2`), matrix(`1&2`)
	power := strings.Repeat(matrix(`x&y\\z&x`), 40)
	ones := func(n int) string { return matrix(strings.Repeat(`1\\`, n)) + matrix("1"+strings.Repeat("&1", n-1)) }
	judge(t, DefaultOptions(), []judged{
		{"$" + matrix(`6&8\\10&12`) + "$", "$" + a + "+" + b + "$", true},
		{"$" + matrix(`-4&-4\\-4&-4`) + "$", "$" + a + "-" + b + "$", true},
		{ab, "$" + a + b + "$", true},
		{ab, "$" + a + `\cdot ` + b + "$", true},
		{ab, "$C = " + a + b + "$", true},
		{"$" + a + "$", "$" + a + matrix(`1&0\\0&1`) + "$", true},
		{"$" + matrix(`7&10\\15&22`) + "$", "$" + a + "^2$", true},
		{"$" + column + "$", "$" + row + "^T$", true},
		{"$" + column + "$", "$" + matrix(`2\\4`) + `\cdot\frac12$`, true},
		{"$" + column + "$", "$" + matrix(`2\\4`) + "/2$", true},
		{"$" + matrix(`1+3t\\2+t`) + "$", "$" + column + "+t" + matrix(`3\\1`) + "$", true},
		{"$" + matrix("11") + "$", "$" + row + matrix(`3\\4`) + "$", true},
		{"$" + matrix(`0.5\\1`) + "$", `$\frac12` + column + "$", true},
		{"$-2$", `$\begin{vmatrix}1&2\\3&4\end{vmatrix}$`, true},
		{"$" + matrix(`6&8\\10&13`) + "$", "$" + a + "+" + b + "$", false},
		{ab, "$" + b + a + "$", false},
		{"$" + row + "$", "$" + column + "^{2}$", false},
		{"$" + row + "$", "$" + row + "+" + matrix(`0\\0`) + "$", false},
		{"$" + a + "$", "$" + a + "+0$", false},
		{"$11$", "$" + row + matrix(`3\\4`) + "$", false},
		{ab, "$" + a + column + "$", false},
		{"$" + power + "$", "$" + power + "^{2}$", false}, // beyond the budget
		{"$" + matrix(`1&16\\0&1`) + "$", "$" + matrix(`1&1\\0&1`) + "^{16}$", true},
		{"$" + matrix(`1&17\\0&1`) + "$", "$" + matrix(`1&1\\0&1`) + "^{17}$", false}, // beyond the 16th power
		{"$" + matrix(`1&0\\0&1`) + "$", "$" + matrix(`1&0\\0&1`) + "^{0}$", false},
		{"$" + matrix(`1&0\\0&1`) + "$", "$" + matrix(`1&0\\0&1`) + `^{\frac12}$`, false},
		{"$" + matrix(`1&0\\0&1`) + "$", "$" + matrix(`1&0\\0&1`) + "^{1}$", true},
		{"$" + matrix(`1&4\\2&5\\3&6`) + "$", "$" + matrix(`1&2&3\\4&5&6`) + `^\top$`, true},
		{"$" + matrix(`1&2\\3&4\\5&6`) + "$", "$" + matrix(`1&2&3\\4&5&6`) + `^T$`, false},
		{"$" + matrix(`9&12\\19&26`) + "$", "$" + matrix(`1&2&0\\3&4&1`) + matrix(`1&2\\4&5\\0&0`) + "$", true}, // 1+8 2+10; 3+16 6+20
		{"$" + matrix(`6\\12`) + "$", `$2\cdot3` + matrix(`1\\2`) + "$", true},
		{"$" + a + "^2$", "$(" + a + "+0)^2$", false},
		{"$" + ones(8) + "$", "$" + ones(8) + "$", true},
		{"$" + ones(9) + "$", "$" + ones(9) + "$", false}, // a product of 81 cells
		{"$" + row + "$", "$" + row + "/" + row + "$", false},
	})
}

// |x| ≤ 2 is -2 ≤ x ≤ 2; 1 ≤ |z| leaves z ≤ -1 or z ≥ 1; 3 - 2x < 1 is x > 1.
func TestConditionsOfSets(t *testing.T) {
	t.Parallel()
	both := []judged{
		{`$x \in [1, 2]$`, `$1 \le x \le 2$`, true},
		{`$-2 \\le x \\le 7$`, `$x \in [-2,7]$`, true},
		{"$0<f(x)<1$", "$(0,1)$", true},
		{`$1\leq|z|\leq \frac{3}{2}$`, `$z \in \left[-\frac{3}{2}, -1\right] \cup \left[1, \frac{3}{2}\right]$`, true},
		{`$|x| \le 2$`, "$[-2,2]$", true},
		{"$|x| < 0$", `$\emptyset$`, true},
		{"$|x| > -1$", `$\mathbb{R}$`, true},
		{"$3-2x<1$", `$(1,\infty)$`, true},
		{"$2x+1 > 2$", `$x > \frac12$`, true},
		{`$\{x: x>1\}$`, `$(1,\infty)$`, true},
		{`$(1,\infty)$`, `$\{x\mid x>1\}$`, true},
		{`$\{x \mid x>1\}$`, `$\{t : 1<t\}$`, true},
		{`$\{x\in \mathbb{R}: |x|<2\}$`, "$(-2,2)$", true},
		{`$\{x \in \mathbb{R} : x \ne 3\}$`, `$\mathbb{R}\setminus\{3\}$`, true},
		{`$\{x \in [0,5] : x > 2\}$`, "$(2,5]$", true},
		{"$x>1$", `$\{x | x>1\}$`, true},
		{`$\{n\in \mathbb{Z}\mid n>1\}$`, `$\{k\in \mathbb{Z} \mid k > 1\}$`, true},
		{`$\{2k: k \in \mathbb{Z}\}$`, `$\{2k : k\in\mathbb{Z}\}$`, true},
		{`$x \in [1, 2]$`, `$1 \le x < 2$`, false},
		{"$x>1$", `$\{x | x \ge 1\}$`, false},
		{`$1\leq|z|\leq 2$`, "$[1,2]$", false},
		{"$3-2x<1$", `$(-\infty,1)$`, false},
		{"$0<f(x)<1$", "$[0,1]$", false},
		{"$x^2>1$", `$(1,\infty)$`, false},
		{`$\{x\in \mathbb{Z}\mid x>1\}$`, `$(1,\infty)$`, false},
		{`$\{x: x>1\}$`, `$\{1\}$`, false},
		{`$\{2k: k \in \mathbb{Z}\}$`, `$\{3k: k \in \mathbb{Z}\}$`, false},
		{`$\{x: x>y\}$`, `$\{x: x>z\}$`, false},
		{"$x>1$", `$y > 1$`, false},
	}
	judge(t, DefaultOptions(), both)
	loose := DefaultOptions()
	loose.SetForRelation = true
	judge(t, loose, both)

	// A response that is a condition, for a reference that is a set.
	sets := []judged{
		{`$\{x: x>1\}$`, "$x>1$", true},
		{"$(-2,2)$", "$|x| < 2$", true},
		{"$(1,2)$", "$0 < x-1 < 1$", true},
		{"$(1,2)$", `$\{x : 0 < x-1 < 1\}$`, true},
		{`$\{x: x>1\}$`, "$x \\ge 1$", false},
		{"$(1,2)$", "$1 < x$", false},
	}
	judge(t, loose, sets)
	for i := range sets[:3] {
		sets[i].equal = false
	}
	judge(t, DefaultOptions(), sets)
}

// Package must ends a test at an error that it is not about.
package must

// TB is a test, a benchmark, or a test of rapid's.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test at an error.
func Do(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get is the value of a call that returns one and an error: must.Get(os.ReadFile(path))(t).
func Get[T any](value T, err error) func(t TB) T {
	return func(t TB) T {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Get2 is [Get] of a call that returns two values.
func Get2[T, U any](first T, second U, err error) func(t TB) (T, U) {
	return func(t TB) (T, U) {
		t.Helper()
		Do(t, err)
		return first, second
	}
}

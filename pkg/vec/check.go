package vec

// Panic messages. They are constants so that a caller's test can name them.
const (
	badLength = "vec: slice lengths do not match"
	badRotary = "vec: row length is not a multiple of twice the number of angles"
)

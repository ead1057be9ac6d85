package remote

// SeedOf is for tests that compare a server's draws with the engine's.
var SeedOf = seedOf

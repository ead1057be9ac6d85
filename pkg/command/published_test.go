package command

// PublishedShapes are for tests of the package's binaries.
var PublishedShapes = publishedShapes

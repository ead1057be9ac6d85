package vec

func availableLevels() []Level { return []Level{Go} }

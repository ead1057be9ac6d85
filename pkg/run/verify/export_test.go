package verify

import "time"

func init() { betweenSteps = time.Millisecond }

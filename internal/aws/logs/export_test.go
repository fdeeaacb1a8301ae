package logs

import "time"

// SetTailTime changes how long a Live Tail session may last.
func SetTailTime(s *Service, d time.Duration) { s.tailTime = d }

package value

// Unit is the unit of a period.
type Unit uint8

// ParsePeriod reads a period as queries write it: a whole number directly followed by a unit (5m, 1h, 30days).
// The result is a Value of PeriodKind, the argument of bin, datefloor and dateceil.
func ParsePeriod(s string) (Value, bool) { panic("unfinished") }

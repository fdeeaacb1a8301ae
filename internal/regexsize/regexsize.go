// Package regexsize estimates what regular expressions of users cost, before they are compiled.
//
// A short expression can ask for a program of millions of instructions: `(()()()){1000}`. Whoever compiles it to count
// them has spent the memory already.
package regexsize

import "regexp/syntax"

// limit is the largest size, so that sizes can be added and multiplied.
const limit = 1 << 30

// Estimate returns about how many instructions the program for re has, with counts written out: no fewer than it has,
// but for the few at its beginning and end. A match takes time in proportion to them.
func Estimate(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n = 1 + len(re.Rune)/32
	case syntax.OpRepeat:
		times := max(re.Min, re.Max, 1)
		if re.Max < 0 {
			times = re.Min + 1
		}
		return min(times*(Estimate(re.Sub[0])+1), limit)
	}
	for _, sub := range re.Sub {
		n = min(n+Estimate(sub)+1, limit)
	}
	return n
}
